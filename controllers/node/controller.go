// Package node initializes new Nodes with what the cloud knows about their machines, and keeps their addresses up to
// date.
//
// It replaces the controller of k8s.io/cloud-provider with the same name, with the same labels, addresses and Events.
// It reads a copy of the cloud, and asks the cloud itself once for each batch of new Nodes before it initializes them.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/cloud-provider/names"
	cloudnode "k8s.io/cloud-provider/node/helpers"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quaymaster.dev/controllers/machine"
	"quaymaster.dev/controllers/worker"
)

// Name is the controller's name in the --controllers flag, which is that of the controller it replaces.
const Name = names.CloudNodeController

const (
	// A failed write is retried after retryBase; the delay doubles with every failure, up to retryMax.
	retryBase, retryMax = 500 * time.Millisecond, 30 * time.Second
	// A Node waits youngRetry for its machine to appear in the copy of the cloud while it is younger than young, and
	// oldRetry later. This costs no request.
	young, youngRetry, oldRetry = 10 * time.Minute, 2 * time.Second, 30 * time.Second
	// minPeriod bounds the period of the comparison of addresses from below.
	minPeriod = time.Second
	// callTimeout bounds the writes of one Node.
	callTimeout = 30 * time.Second
)

// The reasons of Events: a Node is initialized, or is not, because its provider ID is that of another Node's machine.
const (
	eventSynced   = "Synced"
	eventMismatch = "InstanceMismatch"
)

// Machines are the machines of the cloud.
type Machines interface {
	machine.Copy
	// Current asks the cloud itself about the machines of Nodes, and returns those that it knows by the names of the Nodes.
	Current(ctx context.Context, nodes []*corev1.Node) (map[string]*machine.Machine, error)
}

// Options are the dependencies of a Controller.
type Options struct {
	// Nodes is the informer of Nodes.
	Nodes coreinformers.NodeInformer
	// Client returns the client that writes Nodes, with the rights of the controller. It is called once, by Run.
	Client func() kubernetes.Interface
	// Recorder returns the recorder of Events about Nodes for the client. It is called once, by Run, and records until
	// the context ends.
	Recorder func(context.Context, kubernetes.Interface) record.EventRecorder
	Machines Machines
	// Workers is the number of Nodes that are initialized at the same time.
	Workers int
	// Period is how often the addresses of all Nodes are compared.
	Period time.Duration
	// Clock defaults to the real clock.
	Clock clock.WithTicker
}

// Controller initializes Nodes.
type Controller struct {
	o        Options
	nodes    coreinformers.NodeInformer
	client   kubernetes.Interface
	recorder record.EventRecorder
	queue    *worker.Queue[string]
	current  *confirmations
}

// New creates a Controller; Run runs it.
func New(o Options) (*Controller, error) {
	o.Clock = cmp.Or[clock.WithTicker](o.Clock, clock.RealClock{})
	c := &Controller{o: o, nodes: o.Nodes}
	c.queue = worker.New(worker.Options[string]{
		Name: Name, Workers: o.Workers, RetryBase: retryBase, RetryMax: retryMax, Timeout: callTimeout, Process: c.process,
		Clock: o.Clock,
	})
	c.current = newConfirmations(o, c.queue.Add)
	if err := machine.Index(o.Nodes.Informer()); err != nil {
		return nil, fmt.Errorf("index nodes: %w", err)
	}
	// Addresses are only compared from time to time and when the machine changes: another writer of the same addresses
	// must not cause a loop.
	noticed := func(obj any) {
		if node, ok := obj.(*corev1.Node); ok && (uninitialized(node) || len(missingLabels(node)) > 0) {
			c.queue.Add(node.Name)
		}
	}
	if _, err := o.Nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: noticed, UpdateFunc: func(_, obj any) { noticed(obj) },
		DeleteFunc: func(obj any) {
			if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
				c.current.forget(name.Name)
			}
		},
	}); err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	o.Machines.OnChange(c.changed)
	return c, nil
}

// changed looks at the Nodes of a machine that has changed.
func (c *Controller) changed(providerID, hostname string) {
	c.queue.Add(hostname)
	for _, node := range machine.NodesOf(c.nodes.Informer(), providerID) {
		c.queue.Add(node.Name)
	}
}

// Metrics returns the collector that counts failures.
func (c *Controller) Metrics() prometheus.Collector { return c.queue }

// Run initializes Nodes until ctx ends. It returns when no goroutine of the controller runs any more.
func (c *Controller) Run(ctx context.Context) {
	c.client = c.o.Client()
	c.recorder = c.o.Recorder(ctx, c.client)
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.current.queue.Run(ctx) })
	c.queue.RunEvery(ctx, max(c.o.Period, minPeriod), c.compareAll, c.nodes.Informer().HasSynced, c.o.Machines.HasSynced)
}

// compareAll looks at all Nodes.
func (c *Controller) compareAll() {
	nodes, _ := c.nodes.Lister().List(labels.Everything()) // the lister reads a cache
	for _, node := range nodes {
		c.queue.Add(node.Name)
	}
}

func (c *Controller) process(ctx context.Context, name string) worker.Result {
	node, err := c.nodes.Lister().Get(name)
	if err != nil {
		return worker.Done() // the lister reads a cache: the Node does not exist
	}
	result, err := c.sync(ctx, node)
	switch {
	case err == nil:
		return result
	case apierrors.IsConflict(err):
		return worker.Again(retryBase)
	case apierrors.IsNotFound(err):
		return worker.Done()
	}
	klog.FromContext(ctx).Error(err, "Could not initialize or update a Node, will retry", "node", klog.KObj(node))
	return worker.Retry()
}

func (c *Controller) sync(ctx context.Context, node *corev1.Node) (worker.Result, error) {
	found, err := c.o.Machines.Machine(node)
	if errors.Is(err, machine.ErrForeign) {
		return worker.Done(), nil
	}
	if !uninitialized(node) {
		if failed := c.repairLabels(node); failed != nil {
			return worker.Done(), failed
		}
		if err != nil || found == nil || found.State == machine.Deleted || c.belongsToAnother(node, found) {
			return worker.Done(), nil
		}
		return worker.Done(), c.updateAddresses(node, found)
	}
	if err != nil || found == nil || found.State == machine.Deleted {
		return worker.Again(c.wait(node)), nil
	}
	if _, err := initialized(node, found); err != nil {
		return worker.Done(), err
	}
	found, answered := c.current.get(node)
	switch {
	case !answered:
		return worker.Done(), nil // until the cloud has answered
	case found == nil || found.State == machine.Deleted:
		return worker.Again(c.wait(node)), nil
	}
	if problem := c.mismatch(node, found); problem != "" {
		c.recorder.Event(node, corev1.EventTypeWarning, eventMismatch, problem)
		return worker.Again(oldRetry), nil
	}
	return worker.Done(), c.initialize(ctx, node, found)
}

// mismatch returns why a Node cannot be that of the machine, or nothing. A kubelet chooses the provider ID with which it
// registers, but not the hostname of a machine.
func (c *Controller) mismatch(node *corev1.Node, m *machine.Machine) string {
	if m.Hostname != "" && m.Hostname != node.Name {
		return fmt.Sprintf("%s has the hostname %q; the name of its node must be the same: correct --provider-id or "+
			"--hostname-override of the kubelet, then delete the node", m.ProviderID, m.Hostname)
	}
	if other := c.otherNode(node, m); other != "" {
		return fmt.Sprintf("%s is the machine of node %s already; if that node is obsolete, delete it", m.ProviderID, other)
	}
	return ""
}

// belongsToAnother reports whether the machine of an initialized Node is that of another Node, whose name fits. Nodes
// whose name differs from that of their machine keep working once they are initialized.
func (c *Controller) belongsToAnother(node *corev1.Node, m *machine.Machine) bool {
	return m.Hostname != "" && m.Hostname != node.Name && c.otherNode(node, m) != ""
}

// otherNode returns the name of another Node with the provider ID of the machine, or nothing.
func (c *Controller) otherNode(node *corev1.Node, m *machine.Machine) string {
	for _, other := range machine.NodesOf(c.nodes.Informer(), m.ProviderID) {
		if other.Name != node.Name && !uninitialized(other) {
			return other.Name
		}
	}
	return ""
}

// wait returns how long a Node waits for its machine to appear.
func (c *Controller) wait(node *corev1.Node) time.Duration {
	if c.o.Clock.Since(node.CreationTimestamp.Time) < young {
		return youngRetry
	}
	return oldRetry
}

// initialize writes what the cloud knows about the machine and removes the taint. The update fails if the Node has
// changed since it was read.
func (c *Controller) initialize(ctx context.Context, node *corev1.Node, m *machine.Machine) error {
	changed, err := initialized(node, m)
	if err != nil {
		return err
	}
	changed, err = c.client.CoreV1().Nodes().Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("initialize the node: %w", err)
	}
	if err := c.updateAddresses(changed, m); err != nil {
		return err
	}
	c.current.forget(node.Name)
	klog.FromContext(ctx).Info("Initialized a Node", "node", klog.KObj(node), "providerID", m.ProviderID)
	c.recorder.Event(node, corev1.EventTypeNormal, eventSynced, "Node synced successfully")
	return nil
}

// repairLabels writes the labels that other labels of the Node imply.
func (c *Controller) repairLabels(node *corev1.Node) error {
	missing := missingLabels(node)
	if len(missing) > 0 && !cloudnode.AddOrUpdateLabelsOnNode(c.client, missing, node) {
		return errors.New("write the labels of the node")
	}
	return nil
}

// updateAddresses writes the addresses of the machine if the Node has others. It compares all of them: comparing one
// per type finds a difference for ever if a Node has addresses of two families.
func (c *Controller) updateAddresses(node *corev1.Node, m *machine.Machine) error {
	wanted, err := addresses(node, m)
	if err != nil || len(wanted) == 0 || slices.Equal(node.Status.Addresses, wanted) {
		return err
	}
	changed := node.DeepCopy()
	changed.Status.Addresses = wanted
	if _, _, err := nodeutil.PatchNodeStatus(c.client.CoreV1(), types.NodeName(node.Name), node, changed); err != nil {
		return fmt.Errorf("write the addresses of the node: %w", err)
	}
	return nil
}
