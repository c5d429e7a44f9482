// Package nodelifecycle deletes the Nodes whose machines are gone, and taints those whose machines are stopped.
//
// It replaces the controller of k8s.io/cloud-provider with the same name, which deletes a Node after a single answer of
// the cloud. Here, a Node goes only if the cloud has a record of the deletion of its machine, or repeatedly says that
// it does not know the machine; and only a few Nodes at a time, unless an operator approves.
package nodelifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/cloud-provider/names"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quaymaster.dev/controllers/machine"
	"quaymaster.dev/controllers/worker"
	"quaymaster.dev/internal/kube/brakes"
)

// Name is the controller's name in the --controllers flag, which is that of the controller it replaces.
const Name = names.CloudNodeLifecycleController

const (
	// workers bounds the concurrent requests.
	workers = 4
	// A failed request is retried after retryBase; the delay doubles with every failure, up to retryMax.
	retryBase, retryMax = time.Second, time.Minute
	// callTimeout bounds the work on one Node: a cloud that hangs must not block a worker after it is back.
	callTimeout = 15 * time.Second
	// recheck is how often a Node is looked at that is not ready but has a machine, without a request. Changes of the
	// machine are noticed at once.
	recheck = time.Minute
	// refill is how often the Nodes are looked at that wait for the budget.
	refill = 15 * time.Second
)

// Machines are the machines of the cloud.
type Machines interface {
	machine.Copy
	// Ask asks the cloud itself. It returns nil without an error only for the authoritative answer that the cloud does
	// not know the machine.
	Ask(ctx context.Context, node *corev1.Node) (*machine.Machine, error)
}

// Brakes is the record of brakes.
type Brakes interface {
	brakes.Switch
	// HasSynced reports whether the record has been read.
	HasSynced() bool
	// Spend reports whether the work that the key identifies may be done, and if so, counts it.
	Spend(ctx context.Context, name, key string, limit int, window time.Duration) (bool, error)
	// Room reports, without a request, whether Spend would allow work with a new key.
	Room(name string, limit int, window time.Duration) bool
	// Spent returns the keys that were counted within the window.
	Spent(name string, window time.Duration) []string
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
	Brakes   Brakes
	// Clock defaults to the real clock.
	Clock clock.WithTicker
}

// Controller deletes and taints Nodes.
type Controller struct {
	o        Options
	nodes    coreinformers.NodeInformer
	client   kubernetes.Interface
	recorder record.EventRecorder
	queue    *worker.Queue[string]

	// running is false in replicas that are not the leader, which report nothing.
	running atomic.Bool

	mu sync.Mutex
	// cases has the Nodes whose machines may be gone, by name.
	cases map[string]*inquiry
}

// New creates a Controller; Run runs it.
func New(o Options) (*Controller, error) {
	o.Clock = cmp.Or[clock.WithTicker](o.Clock, clock.RealClock{})
	c := &Controller{o: o, nodes: o.Nodes, cases: map[string]*inquiry{}}
	c.queue = worker.New(worker.Options[string]{
		Name: Name, Workers: workers, RetryBase: retryBase, RetryMax: retryMax, Timeout: callTimeout, Process: c.process,
		Clock: o.Clock,
	})
	if err := machine.Index(o.Nodes.Informer()); err != nil {
		return nil, fmt.Errorf("index nodes: %w", err)
	}
	if _, err := o.Nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.noticed,
		UpdateFunc: func(_, obj any) { c.noticed(obj) },
		DeleteFunc: c.deleted,
	}); err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	o.Machines.OnChange(c.changed)
	return c, nil
}

// noticed looks at a Node that is not ready, or is ready again.
func (c *Controller) noticed(obj any) {
	if node, ok := obj.(*corev1.Node); ok && (!ready(node) || tainted(node) || c.known(node.Name) || c.lost(node)) {
		c.queue.Add(node.Name)
	}
}

func (c *Controller) deleted(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	if node, ok := obj.(*corev1.Node); ok {
		c.close(node.Name)
	}
}

// changed looks at once at the Nodes of a machine that has changed.
func (c *Controller) changed(providerID, hostname string) {
	found := machine.NodesOf(c.nodes.Informer(), providerID)
	if node, err := c.nodes.Lister().Get(hostname); err == nil {
		found = append(found, node)
	}
	for _, node := range found {
		if !ready(node) {
			c.wake(node.Name)
			c.queue.Add(node.Name)
		} else if c.lost(node) || c.known(node.Name) {
			c.queue.Add(node.Name)
		}
	}
}

// lost returns true if the cloud reports the machine as deleted. It reads the local copy of the inventory, which may be late.
func (c *Controller) lost(node *corev1.Node) bool {
	found, err := c.o.Machines.Machine(node)
	return err == nil && found != nil && found.State == machine.Deleted
}

// Run deletes and taints Nodes until ctx ends. It returns when no goroutine of the controller runs any more.
func (c *Controller) Run(ctx context.Context) {
	c.client = c.o.Client()
	c.recorder = c.o.Recorder(ctx, c.client)
	c.running.Store(true)
	defer c.running.Store(false)
	c.queue.RunEvery(ctx, recheck, func() { c.releaseBrake(ctx) },
		c.nodes.Informer().HasSynced, c.o.Machines.HasSynced, c.o.Brakes.HasSynced)
}

func (c *Controller) process(ctx context.Context, name string) worker.Result {
	node, err := c.nodes.Lister().Get(name)
	if err != nil {
		c.close(name) // the lister reads a cache: the Node does not exist
		return worker.Done()
	}
	result, err := c.sync(ctx, node)
	if err == nil {
		return result
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		// The decision was about an older state of the Node.
		return worker.Again(retryBase)
	}
	klog.FromContext(ctx).Error(err, "Could not process a Node that is not ready, will retry", "node", klog.KObj(node))
	return worker.Retry()
}

func (c *Controller) sync(ctx context.Context, node *corev1.Node) (worker.Result, error) {
	if node.DeletionTimestamp != nil {
		c.close(node.Name)
		return worker.Done(), nil
	}
	if ready(node) {
		if c.lost(node) {
			c.hold(node, stillReady, "The cloud has deleted the machine of the node, which is ready all the same. The node is kept "+
				"until it is not ready; if it is the wrong machine, correct the node's provider ID")
		} else {
			c.close(node.Name)
		}
		return worker.Done(), c.removeTaint(node)
	}
	found, err := c.o.Machines.Machine(node)
	switch {
	case errors.Is(err, machine.ErrForeign):
		return worker.Done(), nil
	case err != nil:
		return worker.RetryAfter(c.delay(node, err)), nil
	case found != nil && found.State != machine.Deleted:
		c.close(node.Name)
		if found.State == machine.Stopped {
			return worker.Again(recheck), c.addTaint(node)
		}
		return worker.Again(recheck), nil
	}
	return c.inquire(ctx, node, found != nil)
}
