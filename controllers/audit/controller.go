// Package audit finds stored objects that admission would deny today: they were admitted while no webhook answered, or
// the catalogs or policies have changed since. It reports them with Events and metrics, and changes nothing.
package audit

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/policy"
	"quaymaster.dev/internal/policystore"
	"quaymaster.dev/internal/review"
)

// Name is the controller's name in the --controllers flag: it must not change.
const Name = "load-balancer-audit-controller"

const (
	// Events are recorded every pause, at most eventsPerPause, each for another namespace: one namespace whose objects
	// are all invalid gets four Events a second, the cluster twelve.
	pause          = 250 * time.Millisecond
	eventsPerPause = 3
	// repeat is how often Events about objects that stay invalid are recorded again, as API servers delete them.
	repeat = 3 * time.Hour
	// retry is the delay after a failure.
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
	Clock clock.WithDelayedExecution
}

// Controller reviews stored Services and policies whenever they change, or what they are reviewed by.
type Controller struct {
	o        Options
	services cache.SharedIndexInformer
	// changes are reviewed, and reports get an Event.
	changes, reports *turns
	ledger           *ledger
}

var _ policystore.Subscriber = (*Controller)(nil)

// New creates a Controller; Run runs it.
func New(o Options) *Controller {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Controller{
		o: o, services: o.Services.Informer(), changes: newTurns(), reports: newTurns(), ledger: newLedger(),
	}
}

// Metrics returns the collector that counts objects. It has no series before Run has reviewed all of them.
func (c *Controller) Metrics() prometheus.Collector { return c.ledger }

// Run reviews objects until ctx ends. It returns when no goroutine of the controller runs any more, and is called once.
func (c *Controller) Run(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), c.services.HasSynced, c.o.Policies.HasSynced) {
		return
	}
	c.o.Policies.Subscribe(c)
	for _, p := range c.o.Policies.Policies() {
		c.changes.add(p.Key())
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
		running.Go(func() { c.follow(ctx) })
		running.Go(func() { c.report(ctx) })
		running.Wait()
	}
	if err := c.services.RemoveEventHandler(handled); err != nil {
		klog.FromContext(ctx).Error(err, "Could not remove the event handler of Services")
	}
}

func (c *Controller) serviceChanged(obj any) {
	if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
		c.changes.add(policy.Key{Kind: kindService, Namespace: name.Namespace, Name: name.Name})
	}
}

// PolicyChanged implements policystore.Subscriber.
func (c *Controller) PolicyChanged(key policy.Key) { c.changes.add(key) }

// NamespaceChanged implements policystore.Subscriber. The labels of a namespace decide by what its Services are
// reviewed. An empty name means all namespaces.
func (c *Controller) NamespaceChanged(name string) {
	services, _ := c.o.Services.Lister().Services(name).List(labels.Everything()) // reading a cache does not fail
	for _, svc := range services {
		c.serviceChanged(svc)
	}
}

// follow reviews what changes.
func (c *Controller) follow(ctx context.Context) {
	for {
		for _, key := range c.changes.take(1) {
			c.look(ctx, key)
		}
		if c.changes.empty() {
			c.ledger.settled()
		}
		select {
		case <-ctx.Done():
			return
		case <-c.changes.ready:
		}
	}
}

// look reviews an object and schedules what follows from that.
func (c *Controller) look(ctx context.Context, key policy.Key) {
	r, err := c.review(ctx, key)
	if err != nil {
		c.o.Clock.AfterFunc(retry, func() { c.changes.add(key) })
		return
	}
	var before, after verdict
	if r == nil {
		before = c.ledger.remove(key)
	} else {
		after = r.verdict()
		before = c.ledger.put(key, after)
	}
	if after.problems != 0 && after.problems != before.problems {
		c.reports.add(key)
	}
	// A change of the status of a policy changes nothing for Services.
	if after.policy != before.policy {
		c.NamespaceChanged(key.Namespace)
	}
}

// report records the Events about invalid objects.
func (c *Controller) report(ctx context.Context) {
	again := c.o.Clock.NewTimer(repeat)
	defer again.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C():
			c.reports.add(c.ledger.invalid()...)
			again.Reset(repeat)
			continue
		case <-c.reports.ready:
		}
		for _, key := range c.reports.take(eventsPerPause) {
			err := c.record(ctx, key)
			if err != nil {
				// Others go first: perhaps only this namespace takes no Events.
				c.o.Clock.AfterFunc(retry, func() { c.reports.add(key) })
			}
			if err != nil && !failing && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Could not record an Event, will retry", "kind", key.Kind,
					"object", klog.KRef(key.Namespace, key.Name))
			}
			failing = err != nil
		}
		select {
		case <-ctx.Done():
		case <-c.o.Clock.After(pause):
		}
	}
}
