// Package audit finds stored objects that admission would deny today: they were admitted while no webhook answered, or
// the catalogs or policies have changed since. It reports them with Events and metrics, and changes nothing.
package audit

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quaymaster.dev/controllers/worker"
	"quaymaster.dev/internal/kube/policystore"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
)

// Name is the controller's name in the --controllers flag: it must not change.
const Name = "load-balancer-audit-controller"

const (
	// Each reporter pauses after an Event, and no two report for the same namespace: one namespace whose objects are all
	// invalid gets four Events a second, the cluster twelve.
	pause     = 250 * time.Millisecond
	reporters = 3
	// repeat is how often Events about objects that stay invalid are recorded again, as API servers delete them.
	repeat = 3 * time.Hour
	// retry is the delay after a failure: others go first, as perhaps only this namespace takes no Events.
	retry = 20 * time.Second
	// callTimeout bounds the recording of one Event.
	callTimeout = 10 * time.Second
	// kindService is the kind of the keys of Services; the others are those of policies.
	kindService = "Service"
)

// Policies holds the policies and namespaces of the cluster.
type Policies interface {
	HasSynced() bool
	// Subscribe notifies the subscriber of every change from now on.
	Subscribe(policystore.Subscriber)
	Policies() []*policy.Policy
	Entry(policy.Key) (*policystore.Entry, bool)
	// Applicable returns the policies of a namespace.
	Applicable(ctx context.Context, namespace string) ([]*policy.Policy, error)
	Labels(namespace string) (labels map[string]string, known bool)
}

// Options are the dependencies of a Controller.
type Options struct {
	// Services must come from a factory that is started after New. It may omit Services of other types than
	// LoadBalancer.
	Services coreinformers.ServiceInformer
	Policies Policies
	// Reviewer reviews Services as admission does.
	Reviewer review.Reviewer
	// Namespaces selects the namespaces whose Services admission reviews.
	Namespaces labels.Selector
	// Reported reports whether another controller records Events about these errors of a Service.
	Reported func(svc *corev1.Service, errs []finding.Finding) bool
	// Events records Events.
	Events typedcorev1.EventsGetter
	// Clock times Events; nil means the real clock.
	Clock clock.WithTicker
}

// Controller reviews stored Services and policies whenever they change, or what they are reviewed by.
type Controller struct {
	o        Options
	services cache.SharedIndexInformer
	// changes are reviewed; namespaces take turns.
	changes *worker.Queue[policy.Key]
	// reports are the namespaces with objects that get an Event.
	reports *worker.Queue[string]
	ledger  *ledger
	// failing is true while Events cannot be recorded.
	failing atomic.Bool
}

var _ policystore.Subscriber = (*Controller)(nil)

// New creates a Controller; Run runs it.
func New(o Options) *Controller {
	o.Clock = cmp.Or[clock.WithTicker](o.Clock, clock.RealClock{})
	c := &Controller{o: o, services: o.Services.Informer(), ledger: newLedger()}
	c.changes = worker.New(worker.Options[policy.Key]{
		Name: Name, Workers: 1, Flow: func(key policy.Key) string { return key.Namespace }, Process: c.follow, Clock: o.Clock,
	})
	c.reports = worker.New(worker.Options[string]{
		Name: Name + "-events", Workers: reporters, Process: c.report, Clock: o.Clock,
	})
	return c
}

// Metrics returns the collector that counts objects. It has no series before Run has reviewed all of them.
func (c *Controller) Metrics() prometheus.Collector { return c.ledger }

// Run reviews objects until ctx ends. It returns when no goroutine of the controller runs any more, and is called once.
func (c *Controller) Run(ctx context.Context) {
	defer c.changes.ShutDown()
	defer c.reports.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), c.services.HasSynced, c.o.Policies.HasSynced) {
		return
	}
	c.o.Policies.Subscribe(c)
	for _, p := range c.o.Policies.Policies() {
		c.changes.Add(p.Key())
	}
	handled, err := c.services.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: c.serviceChanged, UpdateFunc: func(_, after any) { c.serviceChanged(after) }, DeleteFunc: c.serviceChanged,
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not watch Services")
		return
	}
	// All Services come first, so that no metric covers only some of them.
	if cache.WaitForCacheSync(ctx.Done(), handled.HasSynced) {
		var running sync.WaitGroup
		c.settle()
		running.Go(func() { c.changes.Run(ctx) })
		// API servers delete Events.
		running.Go(func() { c.reports.RunEvery(ctx, repeat, func() { c.notify(c.ledger.invalid()...) }) })
		running.Wait()
	}
	if err := c.services.RemoveEventHandler(handled); err != nil {
		klog.FromContext(ctx).Error(err, "Could not remove the event handler of Services")
	}
}

func (c *Controller) serviceChanged(obj any) {
	if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
		c.changes.Add(policy.Key{Kind: kindService, Namespace: name.Namespace, Name: name.Name})
	}
}

// PolicyChanged implements policystore.Subscriber.
func (c *Controller) PolicyChanged(key policy.Key) { c.changes.Add(key) }

// NamespaceChanged implements policystore.Subscriber. The labels of a namespace decide by what its Services are
// reviewed. An empty name means all namespaces.
func (c *Controller) NamespaceChanged(name string) {
	services, _ := c.o.Services.Lister().Services(name).List(labels.Everything()) // reading a cache does not fail
	for _, svc := range services {
		c.serviceChanged(svc)
	}
}

// settle notes that every object has been reviewed, if none waits.
func (c *Controller) settle() {
	if c.changes.Len() == 0 {
		c.ledger.settled()
	}
}

// follow reviews an object and schedules what follows from that.
func (c *Controller) follow(ctx context.Context, key policy.Key) worker.Result {
	defer c.settle()
	r, err := c.review(ctx, key)
	if err != nil {
		return worker.RetryAfter(retry)
	}
	var before, after verdict
	if r == nil {
		before = c.ledger.remove(key)
	} else {
		after = r.verdict()
		before = c.ledger.put(key, after)
	}
	if after.problems != 0 && after.problems != before.problems {
		c.notify(key)
	}
	// A change of the status of a policy changes nothing for Services.
	if after.policy != before.policy {
		c.NamespaceChanged(key.Namespace)
	}
	return worker.Done()
}

// notify lets invalid objects get an Event.
func (c *Controller) notify(keys ...policy.Key) {
	for _, key := range keys {
		c.ledger.report(key)
		c.reports.Add(key.Namespace)
	}
}

// report records the Event about an invalid object of a namespace.
func (c *Controller) report(ctx context.Context, namespace string) worker.Result {
	key, found := c.ledger.due(namespace)
	if !found {
		return worker.Done()
	}
	err := c.record(ctx, key)
	if err != nil && !c.failing.Swap(true) && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Could not record an Event, will retry", "kind", key.Kind,
			"object", klog.KRef(key.Namespace, key.Name))
	}
	select {
	case <-ctx.Done():
	case <-c.o.Clock.After(pause):
	}
	if err != nil {
		c.ledger.report(key)
		return worker.RetryAfter(retry)
	}
	c.failing.Store(false)
	c.reports.Add(namespace) // it may have more
	return worker.Done()
}
