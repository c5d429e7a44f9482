// Package route maintains the routes to the pods of Nodes in the cloud. It decides about all Nodes and routes together,
// writes the differences in batches, and reports the result of each Node in the condition NetworkUnavailable.
package route

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quaymaster.dev/controllers/worker"
	"quaymaster.dev/internal/kube/brakes"
)

const (
	// name is the name of the controller's queue in metrics, and of the controller itself in the --controllers flag, where
	// it is that of Kubernetes' own route controller.
	name = "node-route-controller"
	// eventSource is the source of Events, as of Kubernetes' own route controller.
	eventSource = "route_controller"

	// settle batches changes that happen together, such as Nodes that join, into one pass.
	settle = time.Second
	// minPeriod bounds how often the table is checked for changes by others.
	minPeriod = 10 * time.Second
	// A failed pass is repeated after retryBase; the delay doubles with every failure, up to retryMax.
	retryBase = time.Second
	retryMax  = 30 * time.Second
	// callTimeout bounds one pass: a cloud that does not answer must not block later changes forever.
	callTimeout = time.Minute
)

// Options are the dependencies of a Controller.
type Options struct {
	Table Table
	// Nodes must come from a factory that is started after New.
	Nodes coreinformers.NodeInformer
	// Client returns the client that writes Events and the conditions of Nodes. It is called once, by Run: in replicas
	// that are not the leader, the client may have no credentials.
	Client func() kubernetes.Interface
	// InstanceOf returns the instance in a provider ID, or false if the provider ID is of another cloud.
	InstanceOf func(providerID string) (instance string, ours bool)
	// ClusterCIDRs contain all routes that may be created or removed.
	ClusterCIDRs []netip.Prefix
	// Period is how often the table is checked for changes by others.
	Period time.Duration
	// Brake stops removals.
	Brake brakes.Switch
	// Clock times passes and repetitions; nil means the real clock.
	Clock clock.WithTicker
}

// wholeTable is the queue's only item: one worker decides about all Nodes and routes together.
const wholeTable = "all"

// Controller maintains the routes to the Nodes' pods. Fields that only its worker uses need no lock.
type Controller struct {
	o          Options
	queue      *worker.Queue[string]
	conditions *conditions
	// departures are the instances whose Nodes have been seen to be deleted.
	departures *utilcache.Expiring
	// synced reports whether all Nodes are known, and have been touched.
	synced cache.InformerSynced
	// driftDue makes the next pass check for changes by others.
	driftDue atomic.Bool

	// loaded is true if routes holds the routes of the cloud at revision. Without one, the controller has written since: a
	// cloud that lost the write, restored to the state before, has the old revision again.
	loaded   bool
	revision string
	routes   map[netip.Prefix]Route
	attempts attempts
	removed  brakes.Account

	mu sync.Mutex
	// touched are the Nodes that have changed since the last pass: what has failed for them is repeated at once.
	touched map[string]bool
}

// New creates a Controller; Run runs it.
func New(o Options) (*Controller, error) {
	o.Clock = cmp.Or[clock.WithTicker](o.Clock, clock.RealClock{})
	o.Period = max(o.Period, minPeriod)
	c := &Controller{
		o: o, departures: utilcache.NewExpiringWithClock(o.Clock), attempts: attempts{}, touched: map[string]bool{},
		removed: brakes.Account{Budget: budget},
	}
	c.queue = worker.New(worker.Options[string]{
		Name: name, Workers: 1, RetryBase: retryBase, RetryMax: retryMax, Timeout: callTimeout, Process: c.process,
		Clock: o.Clock,
	})
	registration, err := o.Nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.touch,
		UpdateFunc: func(oldObj, newObj any) {
			before, ok1 := oldObj.(*corev1.Node)
			after, ok2 := newObj.(*corev1.Node)
			if ok1 && ok2 && !alike(before, after) {
				c.touch(after)
			}
		},
		DeleteFunc: c.depart,
	})
	if err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	c.synced = registration.HasSynced
	return c, nil
}

func (c *Controller) touch(obj any) {
	if n, ok := obj.(*corev1.Node); ok {
		if instance, ours := c.o.InstanceOf(n.Spec.ProviderID); ours {
			c.departures.Delete(instance) // the Node is back
		}
		c.mu.Lock()
		c.touched[n.Name] = true
		c.mu.Unlock()
	}
	c.queue.AddAfter(wholeTable, settle)
}

// takeTouched returns the Nodes that have changed since the last call. It must be called before the Nodes are listed,
// so that a change in between counts for the next pass.
func (c *Controller) takeTouched() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	touched := c.touched
	c.touched = map[string]bool{}
	return touched
}

// depart remembers that the deletion of a Node has been seen. The informer also reports Nodes that are merely absent
// from a list, as cache.DeletedFinalStateUnknown: that does not explain the removal of a route.
func (c *Controller) depart(obj any) {
	if n, ok := obj.(*corev1.Node); ok {
		if instance, ours := c.o.InstanceOf(n.Spec.ProviderID); ours {
			c.departures.Set(instance, nil, departureKept)
		}
	}
	c.queue.AddAfter(wholeTable, settle)
}

// Metrics returns the collector that counts failures.
func (c *Controller) Metrics() prometheus.Collector { return c.queue }

// Run maintains routes until ctx ends. It returns when no goroutine of the controller runs any more.
func (c *Controller) Run(ctx context.Context) {
	stop := c.connect(ctx)
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.conditions.queue.Run(ctx) })
	c.queue.Add(wholeTable)
	c.queue.RunEvery(ctx, c.o.Period, c.checkDrift, c.synced)
}

func (c *Controller) checkDrift() {
	c.driftDue.Store(true)
	c.queue.Add(wholeTable)
}

// connect creates what needs the client.
func (c *Controller) connect(ctx context.Context) (stop func()) {
	client := c.o.Client()
	events := record.NewBroadcaster(record.WithContext(ctx))
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	recorder := events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: eventSource})
	c.conditions = newConditions(client.CoreV1().Nodes(), c.o.Nodes.Lister(), recorder, c.o.Clock)
	return events.Shutdown
}

func (c *Controller) process(ctx context.Context, _ string) worker.Result {
	next, err := c.pass(ctx, c.driftDue.Swap(false))
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not reconcile routes, will retry")
		return worker.Retry()
	}
	if next > 0 {
		return worker.RetryAfter(next) // a change has failed
	}
	return worker.Done()
}

// pass compares all Nodes with all routes and makes the changes that are due. It returns the time until the next failed
// change is due.
func (c *Controller) pass(ctx context.Context, checkDrift bool) (time.Duration, error) {
	start, touched := c.o.Clock.Now(), c.takeTouched()
	// If the check fails, what is known must not wait for it.
	drift := c.load(ctx, checkDrift)
	if drift != nil && c.routes == nil {
		return 0, drift
	}
	nodes, known, err := c.nodes()
	if err != nil {
		return 0, err
	}
	d := decide(nodes, c.routes, c.o.ClusterCIDRs)
	// Suspects whose hostnames are unknown are kept.
	removals, err := c.removable(ctx, d)
	var changes []Change
	for _, route := range d.upserts {
		changes = append(changes, Change{Route: route})
	}
	causes := map[netip.Prefix]removal{}
	for _, r := range c.brake(ctx, removals) {
		changes = append(changes, Change{Route: r.Route, Remove: true})
		causes[r.Destination] = r
	}
	c.attempts.forget(nodes, touched)
	c.apply(ctx, c.attempts.keep(changes, start), causes)
	c.report(d, known, start)
	return c.attempts.next(c.o.Clock.Now()), errors.Join(drift, err)
}

// load lists the routes if they are unknown or may have drifted.
func (c *Controller) load(ctx context.Context, checkDrift bool) error {
	if c.loaded && !checkDrift {
		return nil
	}
	since := c.revision
	if !c.loaded {
		since = "" // what the cloud reports may not include the last writes yet
	}
	routes, revision, changed, err := c.o.Table.List(ctx, since)
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	if changed {
		c.routes = make(map[netip.Prefix]Route, len(routes))
		for _, r := range routes {
			c.routes[r.Destination] = r
		}
	}
	c.loaded, c.revision = true, revision
	return nil
}

// nodes returns the Nodes that routes depend on, and all of them by name.
func (c *Controller) nodes() ([]node, map[string]*corev1.Node, error) {
	list, err := c.o.Nodes.Lister().List(labels.Everything())
	if err != nil {
		return nil, nil, fmt.Errorf("list nodes: %w", err)
	}
	candidates, known := make([]node, 0, len(list)), make(map[string]*corev1.Node, len(list))
	for _, n := range list {
		known[n.Name] = n
		if one, ours := candidate(n, c.o.InstanceOf, c.o.ClusterCIDRs); ours {
			candidates = append(candidates, one)
		}
	}
	return candidates, known, nil
}

// removable returns the removals of a decision, with the suspects whose instance has the hostname of no uninitialized
// Node. If hostnames cannot be read, the suspects are kept.
func (c *Controller) removable(ctx context.Context, d decision) ([]removal, error) {
	if len(d.suspects) == 0 {
		return d.removals, nil
	}
	ids := make([]string, len(d.suspects))
	for i, s := range d.suspects {
		ids[i] = s.Hop.InstanceID
	}
	hostnames, err := c.o.Table.Hostnames(ctx, ids)
	if err != nil {
		return d.removals, fmt.Errorf("read the hostnames of instances: %w", err)
	}
	removals := d.removals
	for _, s := range d.suspects {
		if !d.uninitialized[hostnames[s.Hop.InstanceID]] {
			removals = append(removals, s)
		}
	}
	return removals, nil
}

// Once compares all Nodes with all routes and makes the changes that are due, once. The Controller cannot run afterwards.
// The conditions of Nodes are not written.
func (c *Controller) Once(ctx context.Context) error {
	stop := c.connect(ctx)
	defer stop()
	defer c.queue.ShutDown()
	defer c.conditions.queue.ShutDown()
	_, err := c.pass(ctx, true)
	return err
}
