// Package service reconciles Services with the load balancers of the cloud. It owns finalizer, record, status and
// conditions of the Services; the cloud is behind an interface.
//
// A Service is reconciled when it changes, when Enqueue reports that the cloud changed, and when the last call asked
// for another one. Each pass compares the whole Service with the whole load balancer, so that none depends on what an
// earlier one saw. Passes of one Service never run at the same time, and never wait for the cloud to finish its work.
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/cloud-provider/names"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quaymaster.dev/controllers/worker"
	"quaymaster.dev/internal/kube/condition"
)

// Name is the controller's name in the --controllers flag. It is that of the app's controller, which it
// replaces.
const Name = names.ServiceLBController

const (
	// A failed pass is repeated after retryBase; the delay doubles with every failure, up to retryMax. A delay in the State
	// is used instead.
	retryBase = 5 * time.Second
	retryMax  = 5 * time.Minute
	// passTimeout bounds one pass: a cloud that hangs must not block a worker for good.
	passTimeout = time.Minute
	// byUID is the index of Services by UID.
	byUID = "quaymaster.dev/uid"
)

// Options are the dependencies of a Controller.
type Options struct {
	// Services must come from a factory that is started after New. It must have Services of all types, because one that
	// changes its type may have a load balancer.
	Services coreinformers.ServiceInformer
	// Client returns the client that writes Services, with the rights of the controller. It is called once, by Run.
	Client func() kubernetes.Interface
	// LoadBalancerClass is the class of the Services that are ours, whether or not those without a class are.
	LoadBalancerClass string
	// Balancers manages the load balancers.
	Balancers Balancers
	// Synced report whether what Balancers needs is known; the first pass waits for all of them.
	Synced []cache.InformerSynced
	// Reader reads a Service again whose write was rejected.
	Reader typedcorev1.ServicesGetter
	// Recorder returns the recorder of Events about Services for the client. It is called once, by Run, and records
	// until the context ends.
	Recorder func(context.Context, kubernetes.Interface) record.EventRecorder
	// Registerer registers the metrics; nil means that there are none.
	Registerer prometheus.Registerer
	// Workers is how many Services are processed at the same time.
	Workers int
	// Clock times retries and transitions; nil means the real clock.
	Clock clock.WithTicker
}

// Controller reconciles Services with load balancers.
type Controller struct {
	o         Options
	services  cache.SharedIndexInformer
	client    typedcorev1.ServicesGetter
	ownership ownership
	recorder  record.EventRecorder
	queue     *worker.Queue[types.UID]
	written   *written
	progress  *progress
	told      told
}

// New creates a Controller; Run runs it.
func New(o Options) (*Controller, error) {
	o.Clock = cmp.Or[clock.WithTicker](o.Clock, clock.RealClock{})
	progress, err := newProgress(o.Registerer, o.Clock)
	if err != nil {
		return nil, err
	}
	c := &Controller{
		o: o, services: o.Services.Informer(), progress: progress,
		ownership: ownership{finalizer: Finalizer(o.LoadBalancerClass)},
		written:   newWritten(),
	}
	c.queue = worker.New(worker.Options[types.UID]{
		Name: Name, Workers: o.Workers, RetryBase: retryBase, RetryMax: retryMax, Timeout: passTimeout,
		Flow: c.namespace, Process: c.process, Clock: o.Clock,
	})
	if err := c.watch(); err != nil {
		return nil, fmt.Errorf("watch services: %w", err)
	}
	return c, nil
}

// Enqueue reconciles the Service with the UID, because its load balancer changed. It never blocks.
func (c *Controller) Enqueue(uid types.UID) { c.queue.Add(uid) }

// EnqueueNamespace reconciles the Services of a namespace, or of all if it is empty, because the policies changed. It
// never blocks.
func (c *Controller) EnqueueNamespace(namespace string) {
	add := func(obj any) {
		if svc, ok := obj.(*corev1.Service); ok && c.concerns(svc) {
			c.queue.Add(svc.UID)
		}
	}
	// These only fail for a selector or an index that does not exist.
	if namespace == metav1.NamespaceAll {
		_ = cache.ListAll(c.services.GetIndexer(), labels.Everything(), add)
		return
	}
	_ = cache.ListAllByNamespace(c.services.GetIndexer(), namespace, labels.Everything(), add)
}

// Metrics returns the collector that counts failures.
func (c *Controller) Metrics() prometheus.Collector { return c.queue }

// Run reconciles Services until ctx ends. It returns when no goroutine of the controller runs any more.
func (c *Controller) Run(ctx context.Context) {
	client := c.o.Client()
	c.client, c.recorder = client.CoreV1(), c.o.Recorder(ctx, client)
	c.queue.Run(ctx, append([]cache.InformerSynced{c.services.HasSynced}, c.o.Synced...)...)
}

// process runs a pass for a Service and decides when the next one is.
func (c *Controller) process(ctx context.Context, uid types.UID) worker.Result {
	logger := klog.FromContext(ctx)
	svc := c.find(uid)
	if svc == nil {
		return worker.Done()
	}
	logger = logger.WithValues("service", klog.KObj(svc), "uid", uid)
	state, err := c.reconcile(klog.NewContext(ctx, logger), svc)
	if err == nil {
		c.told.forget(uid, failing)
		if state.RetryAfter > 0 {
			return worker.Again(state.RetryAfter)
		}
		return worker.Done()
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return worker.Done() // the controller stops
	}
	if !errors.Is(err, ErrNotReady) && c.told.first(uid, failing) {
		logger.Error(err, "Could not reconcile the load balancer of a service, will retry")
	} else {
		// An outage would otherwise log one line for every attempt.
		logger.V(2).Info("Still could not reconcile the load balancer of a service", "err", err)
	}
	if state.RetryAfter > 0 {
		return worker.RetryAfter(state.RetryAfter)
	}
	return worker.Retry()
}

// namespace returns the namespace of a Service: namespaces take turns.
func (c *Controller) namespace(uid types.UID) string {
	if svc := c.find(uid); svc != nil {
		return svc.Namespace
	}
	return ""
}

// find returns the newest known state of a Service, or nil if it no longer exists.
func (c *Controller) find(uid types.UID) *corev1.Service {
	found, err := c.services.GetIndexer().ByIndex(byUID, string(uid))
	if err == nil && len(found) > 0 {
		if svc, ok := found[0].(*corev1.Service); ok {
			return c.written.newest(svc)
		}
	}
	return nil
}

// The reasons of Events, which are those of the app's controller.
const (
	reasonEnsuring = "EnsuringLoadBalancer"
	reasonEnsured  = "EnsuredLoadBalancer"
	reasonFailed   = condition.EventFailed
	reasonDeleting = "DeletingLoadBalancer"
	reasonDeleted  = "DeletedLoadBalancer"
)

// failing is the log line about a Service whose passes fail, which appears once.
const failing = "failing"

func (c *Controller) event(svc *corev1.Service, reason, message string) {
	c.recorder.Event(svc, corev1.EventTypeNormal, reason, message)
}

// failed reports a failed attempt.
func (c *Controller) failed(svc *corev1.Service, err error) {
	if errors.Is(err, ErrNotReady) {
		return
	}
	c.recorder.Eventf(svc, corev1.EventTypeWarning, reasonFailed, "Error syncing load balancer: %v", err)
}

// told has what was already said about Services, so that it is not repeated on every pass.
type told struct{ said sync.Map }

type statement struct {
	uid  types.UID
	what string
}

// first reports whether this is the first time that something is said about a Service.
func (t *told) first(uid types.UID, what string) bool {
	_, already := t.said.LoadOrStore(statement{uid, what}, nil)
	return !already
}

// forget lets things about a Service be said again.
func (t *told) forget(uid types.UID, what ...string) {
	for _, w := range what {
		t.said.Delete(statement{uid, w})
	}
}
