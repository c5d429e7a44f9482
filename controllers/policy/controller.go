// Package policy validates existing Services against the policies that apply to them, whenever either changes, and
// reports the result in the status of the policies, in Events and in a metric. It changes no Service.
package policy

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/controllers/worker"
	"quaymaster.dev/internal/kube/policystore"
	engine "quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
)

// Name is the controller's name in the --controllers flag: it must not change.
const Name = "load-balancer-policy-controller"

const (
	// settle batches changes that happen together; the status of a policy is written at most once per settle.
	settle = time.Second
	// A failed write is retried after retryBase; the delay doubles with every failure, up to retryMax.
	retryBase = time.Second
	retryMax  = time.Minute
	// writers is how many statuses are written at the same time: a slow write must not delay all others.
	writers = 2
	// callTimeout bounds one write.
	callTimeout = 10 * time.Second
)

// Store holds the policies and namespaces of the cluster.
type Store interface {
	HasSynced() bool
	// Subscribe notifies the subscriber of every change from now on.
	Subscribe(policystore.Subscriber)
	Policies() []*engine.Policy
	// Candidates returns the policies that may apply to a namespace, and the first of its own that does not; for "",
	// only those of the cluster.
	Candidates(namespace string) []*engine.Policy
	Entry(engine.Key) (*policystore.Entry, bool)
	Labels(namespace string) (labels map[string]string, known bool)
	// Excluded returns a namespace that the policy selects but in which it is inactive or does not apply; empty if there
	// is none.
	Excluded(*engine.Policy) (namespace string, inactive bool)
}

// StatusWriter writes the status of policies.
type StatusWriter interface {
	// ApplyStatus writes the status of a policy, provided that the policy still has its resourceVersion, and returns
	// the new one.
	ApplyStatus(ctx context.Context, key engine.Key, version string, status v1alpha1.PolicyStatus) (string, error)
}

// Options are the dependencies of a Controller.
type Options struct {
	// Services must come from a factory that is started after New. It may omit Services of other types than
	// LoadBalancer.
	Services coreinformers.ServiceInformer
	// Store holds the policies.
	Store Store
	// Status writes the results.
	Status StatusWriter
	// Reviewer parses Services and gives them their defaults.
	Reviewer review.Reviewer
	// Recorder records Events about policies.
	Recorder record.EventRecorder
	// Registerer registers the metric.
	Registerer prometheus.Registerer
	// Clock times writes and transitions; nil means the real clock.
	Clock clock.WithTicker
}

// change names an object that may have changed: a policy or, if that is empty, a Service or, without a name, a
// namespace.
type change struct {
	policy          engine.Key
	namespace, name string
}

// Controller maintains the status of policies.
type Controller struct {
	o        Options
	services cache.SharedIndexInformer
	changes  *worker.Queue[change]
	statuses *worker.Queue[engine.Key]

	mu     sync.Mutex
	ledger *ledger
	// applied are the policies that the Services of the ledger were validated against.
	applied map[engine.Key]*engine.Policy
	// written holds the statuses written last, until the Store has them.
	written map[engine.Key]written
}

var _ policystore.Subscriber = (*Controller)(nil)

// New creates a Controller; Run runs it.
func New(o Options) (*Controller, error) {
	o.Clock = cmp.Or[clock.WithTicker](o.Clock, clock.RealClock{})
	violating := newViolating()
	if err := o.Registerer.Register(violating); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	c := &Controller{
		o: o, services: o.Services.Informer(),
		applied: map[engine.Key]*engine.Policy{}, written: map[engine.Key]written{},
	}
	// One worker: the ledger has one writer. It never fails, so that the delays of retries do not matter.
	c.changes = worker.New(worker.Options[change]{
		Name: Name, Workers: 1, RetryBase: retryBase, RetryMax: retryMax, Process: c.follow, Clock: o.Clock,
	})
	c.statuses = worker.New(worker.Options[engine.Key]{
		Name: Name + "-status", Workers: writers, RetryBase: retryBase, RetryMax: retryMax, Timeout: callTimeout,
		Process: c.write, Clock: o.Clock,
	})
	c.ledger = newLedger(o.Reviewer, violating, c.touch)
	return c, nil
}

// Metrics returns the collector that counts failures.
func (c *Controller) Metrics() prometheus.Collector { return c.statuses }

// Run maintains the status of policies until ctx ends. It returns when no goroutine of the controller runs any more,
// and is called once.
func (c *Controller) Run(ctx context.Context) {
	defer c.statuses.ShutDown()
	defer c.changes.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), c.services.HasSynced, c.o.Store.HasSynced) {
		return
	}
	c.o.Store.Subscribe(c)
	// All Services come first, so that no status covers only some of them.
	c.validateAll()
	handled, err := c.services.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.serviceChanged(nil, obj) },
		UpdateFunc: c.serviceChanged,
		DeleteFunc: func(obj any) { c.serviceChanged(nil, obj) },
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not watch Services")
		return
	}
	var running sync.WaitGroup
	running.Go(func() { c.changes.Run(ctx) })
	running.Go(func() { c.statuses.Run(ctx) })
	running.Wait()
	if err := c.services.RemoveEventHandler(handled); err != nil {
		klog.FromContext(ctx).Error(err, "Could not remove the event handler of Services")
	}
}

// PolicyChanged handles a change in the Store.
func (c *Controller) PolicyChanged(key engine.Key) { c.changes.Add(change{policy: key}) }

// NamespaceChanged handles a change in the Store.
func (c *Controller) NamespaceChanged(name string) { c.changes.Add(change{namespace: name}) }

// serviceChanged handles a change of a Service that is, or was, of type LoadBalancer.
func (c *Controller) serviceChanged(before, after any) {
	if !isLoadBalancer(before) && !isLoadBalancer(after) {
		return
	}
	key, err := cache.DeletionHandlingObjectToName(after)
	if err == nil {
		c.changes.Add(change{namespace: key.Namespace, name: key.Name})
	}
}

// isLoadBalancer is true for a Service whose deletion the watch has missed, too, as its last type is unknown.
func isLoadBalancer(obj any) bool {
	if _, unknown := obj.(cache.DeletedFinalStateUnknown); unknown {
		return true
	}
	svc, ok := obj.(*corev1.Service)
	return ok && svc.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// touch schedules a check of a policy's status, together with other changes that happen until then.
func (c *Controller) touch(key engine.Key) { c.statuses.AddAfter(key, settle) }
