package dlb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/pager"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/worker"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/provider/ownership"
)

// OrphansName is the name of the controller that deletes load balancers without a Service.
const OrphansName = "load-balancer-orphan-controller"

const (
	// orphanAge is how long a load balancer must have been without a Service before it is deleted.
	orphanAge = 30 * time.Minute
	// orphanPeriod is the time between two sweeps.
	orphanPeriod = 5 * time.Minute
	// A failed sweep is repeated after orphanRetry; the delay doubles with every failure, up to orphanPeriod.
	orphanRetry = 10 * time.Second
	// orphanTimeout bounds one sweep.
	orphanTimeout = 5 * time.Minute
)

// allOrphans is the only item of the queue.
const allOrphans = "all"

// Why an orphan still exists: values of the metric's label reason.
const (
	orphanWaiting   = "waiting"
	orphanProtected = "protected"
	orphanAdopted   = "adopted"
	orphanUntagged  = "untagged"
	orphanTooMany   = "too-many"
	orphanFailing   = "failing"
)

func orphanReasons() []string {
	return []string{orphanWaiting, orphanProtected, orphanAdopted, orphanUntagged, orphanTooMany, orphanFailing}
}

var descOrphans = prometheus.NewDesc("quaymaster_load_balancer_orphans",
	"Load balancers with the tag of this cluster whose Services do not exist, by the reason why they are kept.",
	[]string{"reason"}, nil)

// Orphans deletes the load balancers of the cluster that no Service uses any more: after a crash, or because a user
// removed a finalizer. It marks them first, and deletes them when they are still orphans after half an hour, by what
// API server and cloud say then.
type Orphans struct {
	balancer *Balancer
	services typedcorev1.ServicesGetter
	clock    clock.WithTicker
	queue    *worker.Queue[string]

	mu sync.Mutex
	// found has the orphans by their IDs.
	found map[string]orphan
}

// orphan is a load balancer without a Service.
type orphan struct {
	since  time.Time
	reason string
}

var _ prometheus.Collector = (*Orphans)(nil)

// NewOrphans returns the collector of a Balancer's orphans. It lists Services with services, not from a cache, before
// it deletes.
func NewOrphans(b *Balancer, services typedcorev1.ServicesGetter, clock clock.WithTicker) *Orphans {
	o := &Orphans{balancer: b, services: services, clock: clock, found: map[string]orphan{}}
	o.queue = worker.New(worker.Options[string]{
		Name: OrphansName, Workers: 1, RetryBase: orphanRetry, RetryMax: orphanPeriod, Timeout: orphanTimeout,
		Process: o.process, Clock: clock,
	})
	return o
}

// Run sweeps until ctx ends, when the load balancers have been read.
func (o *Orphans) Run(ctx context.Context) {
	o.queue.Add(allOrphans)
	o.queue.Run(ctx, o.balancer.mirror.LoadBalancers.Synced)
}

func (o *Orphans) process(ctx context.Context, _ string) worker.Result {
	if err := o.Sweep(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Could not look for load balancers without a Service, will retry")
		return worker.Retry()
	}
	return worker.Again(orphanPeriod)
}

// Sweep marks orphans, and deletes those that were marked long enough ago.
func (o *Orphans) Sweep(ctx context.Context) error {
	store := o.balancer.mirror.LoadBalancers
	if !store.Synced() {
		return errNotSynced
	}
	cached, err := o.balancer.services.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	o.balancer.settleBrake(ctx)
	all, suspects := store.List(), orphansOf(store.List(), o.using(cached))
	due := o.mark(suspects)
	if len(due) == 0 {
		return nil
	}
	if tooMany(len(suspects), len(all)) || o.balancer.held(ctx) != "" {
		for _, lb := range due {
			o.keep(lb.ID, orphanTooMany)
		}
		return nil
	}
	return o.remove(ctx, due)
}

// using returns the UIDs of the Services that use a load balancer, or that their controller still has to release from
// one.
func (o *Orphans) using(services []*corev1.Service) map[string]bool {
	uids := map[string]bool{}
	for _, svc := range services {
		if o.balancer.Owned(svc) || svc.DeletionTimestamp != nil || hasRecord(svc) {
			uids[string(svc.UID)] = true
		}
	}
	return uids
}

// orphansOf returns the load balancers whose Services are not among those that use one.
func orphansOf(all []*cloudv1.LoadBalancer, using map[string]bool) []*cloudv1.LoadBalancer {
	return slices.DeleteFunc(slices.Clone(all), func(lb *cloudv1.LoadBalancer) bool {
		return using[lb.Tags[ownership.ServiceUID]]
	})
}

// mark remembers orphans since when they are that, and returns those that have been for long enough.
func (o *Orphans) mark(suspects []*cloudv1.LoadBalancer) []*cloudv1.LoadBalancer {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, still := o.clock.Now(), map[string]orphan{}
	var due []*cloudv1.LoadBalancer
	for _, lb := range suspects {
		mark, known := o.found[lb.ID]
		if !known {
			mark = orphan{since: now, reason: orphanWaiting}
		}
		still[lb.ID] = mark
		if now.Sub(mark.since) >= orphanAge {
			due = append(due, lb)
		}
	}
	o.found = still
	return due
}

// remove deletes orphans that are still without a Service.
func (o *Orphans) remove(ctx context.Context, due []*cloudv1.LoadBalancer) error {
	live, err := o.live(ctx)
	if err != nil {
		return err
	}
	using := o.using(slices.Collect(maps.Values(live)))
	var failed []error
	for _, lb := range due {
		uid := lb.Tags[ownership.ServiceUID]
		if using[uid] {
			o.forget(lb.ID)
			continue
		}
		reason, err := o.end(ctx, lb.ID, live[uid])
		if err != nil {
			failed = append(failed, fmt.Errorf("delete load balancer %s: %w", lb.ID, err))
		}
		o.keep(lb.ID, reason)
	}
	return errors.Join(failed...)
}

// live reads all Services from the API server, not from a cache.
func (o *Orphans) live(ctx context.Context) (map[string]*corev1.Service, error) {
	all := map[string]*corev1.Service{}
	pages := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		return o.services.Services(metav1.NamespaceAll).List(ctx, opts)
	})
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		if svc, ok := obj.(*corev1.Service); ok {
			all[string(svc.UID)] = svc
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list services: %w", err)
	}
	return all, nil
}

// end deletes an orphan, or returns why it is kept. svc is its former Service, which no longer wants a load balancer of
// ours, or nil if it does not exist.
func (o *Orphans) end(ctx context.Context, id string, svc *corev1.Service) (reason string, err error) {
	if svc != nil {
		// Its annotations may ask for a release.
		if _, err := o.balancer.Remove(ctx, svc); err != nil {
			return orphanFailing, err
		}
		return orphanWaiting, nil
	}
	lb, err := o.balancer.cloud.LoadBalancer(ctx, id, cloudapi.ReadOptions{})
	if cloudapi.IsAbsent(err) {
		o.balancer.mirror.LoadBalancers.Drop(id)
		return orphanWaiting, nil
	}
	if err != nil {
		return orphanFailing, err
	}
	cluster, err := o.balancer.cluster.UID(ctx)
	if err != nil {
		return orphanFailing, err
	}
	if reason := kept(lb, cluster); reason != "" {
		return reason, nil
	}
	owner := map[string]string{ownership.ClusterUID: cluster, ownership.ServiceUID: lb.Tags[ownership.ServiceUID]}
	_, err = o.balancer.cloud.DeleteLoadBalancer(
		ctx, id, cloudapi.WriteOptions{IfMatch: lb.Revision, IfTags: owner})
	if err != nil && !cloudapi.IsAbsent(err) {
		return orphanFailing, err
	}
	klog.FromContext(ctx).Info("Deleted a load balancer without a Service", "id", id, "name", lb.Name,
		"serviceUID", lb.Tags[ownership.ServiceUID])
	return orphanWaiting, nil
}

// kept returns why an orphan must not be deleted, or an empty string.
func kept(lb *cloudv1.LoadBalancer, cluster string) string {
	switch {
	case lb.Tags[ownership.ClusterUID] != cluster || lb.Tags[ownership.ServiceUID] == "":
		return orphanUntagged
	case ownership.Adopted(lb.Tags):
		return orphanAdopted
	case lb.DeletionProtection:
		return orphanProtected
	case lb.ProvisioningState == cloudv1.ProvisioningPendingDelete:
		return orphanWaiting
	}
	return ""
}

func (o *Orphans) keep(id, reason string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if mark, known := o.found[id]; known {
		mark.reason = reason
		o.found[id] = mark
	}
}

func (o *Orphans) forget(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.found, id)
}

// Describe implements prometheus.Collector.
func (o *Orphans) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- descOrphans
	o.queue.Describe(descriptions)
}

// Collect implements prometheus.Collector.
func (o *Orphans) Collect(metrics chan<- prometheus.Metric) {
	o.queue.Collect(metrics)
	o.mu.Lock()
	defer o.mu.Unlock()
	count := map[string]int{}
	for _, mark := range o.found {
		count[mark.reason]++
	}
	for _, reason := range orphanReasons() {
		metrics <- prometheus.MustNewConstMetric(descOrphans, prometheus.GaugeValue, float64(count[reason]), reason)
	}
}
