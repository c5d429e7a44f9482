package dlb

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"quaymaster.dev/provider/orphans"
)

// OrphansName is the name of the controller that reports load balancers without a Service.
const OrphansName = "load-balancer-orphan-controller"

const (
	// orphanPeriod is the time between two looks for orphans.
	orphanPeriod = 5 * time.Minute
	// looksToReport is how many looks in a row must find an orphan before it is reported.
	looksToReport = 2
)

// reasonOrphans is the reason of the Event about orphans, of the namespace kube-system.
const reasonOrphans = "LoadBalancersWithoutService"

var descOrphans = prometheus.NewDesc("quaymaster_load_balancer_orphans",
	"Load balancers with the tag of this cluster that no Service uses, by the reason why they must not be deleted, or "+
		"unused if they may.",
	[]string{"reason"}, nil)

// Orphans reports the load balancers of the cluster that no Service uses any more. It deletes none: see package orphans.
type Orphans struct {
	balancer *Balancer

	mu sync.Mutex
	// found are the orphans of the last look by their IDs.
	found map[string]sighting
}

// sighting is an orphan and the number of looks in a row that have found it. The first one does not count: the copies of
// the cloud and of the Services may differ for a moment.
type sighting struct {
	orphans.Orphan

	looks int
}

var _ prometheus.Collector = (*Orphans)(nil)

// NewOrphans returns the reporter of a Balancer's orphans.
func NewOrphans(b *Balancer) *Orphans { return &Orphans{balancer: b} }

// Run looks for orphans until ctx ends.
func (o *Orphans) Run(ctx context.Context) { wait.UntilWithContext(ctx, o.Look, orphanPeriod) }

// Look looks for orphans, and reports those that two looks in a row have found.
func (o *Orphans) Look(ctx context.Context) {
	b := o.balancer
	if !b.mirror.LoadBalancers.Synced() {
		return
	}
	services, err := b.services.List(labels.Everything())
	if err != nil {
		return // the lister of an informer does not fail
	}
	b.settleBrake(ctx)
	appeared := o.note(orphans.Find(b.mirror.LoadBalancers.List(), services, b.Owned))
	if len(appeared) == 0 {
		return
	}
	for _, orphan := range appeared {
		klog.FromContext(ctx).Info("Found a load balancer without a Service", "id", orphan.ID, "name", orphan.Name,
			"addresses", orphan.LoadBalancer.Addresses(), "reason", orphan.Reason())
	}
	o.event(ctx, len(appeared))
}

// note remembers what a look has found, and returns what is to be reported for the first time.
func (o *Orphans) note(found []orphans.Orphan) []orphans.Orphan {
	o.mu.Lock()
	defer o.mu.Unlock()
	var appeared []orphans.Orphan
	still := map[string]sighting{}
	for _, orphan := range found {
		looks := o.found[orphan.ID].looks + 1
		still[orphan.ID] = sighting{Orphan: orphan, looks: looks}
		if looks == looksToReport {
			appeared = append(appeared, orphan)
		}
	}
	o.found = still
	return appeared
}

// event emits one Event about new orphans. Their Services may no longer exist, so it is about the namespace whose UID is
// the cluster's.
func (o *Orphans) event(ctx context.Context, count int) {
	uid, err := o.balancer.cluster.UID(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not emit an Event about load balancers without a Service")
		return
	}
	about := &corev1.ObjectReference{
		Kind: "Namespace", APIVersion: "v1", Name: metav1.NamespaceSystem, UID: types.UID(uid),
	}
	o.balancer.recorder.Eventf(about, corev1.EventTypeWarning, reasonOrphans,
		"Found %d load balancers without a Service; they are kept because their addresses may be in use; quayctl orphans "+
			"lists and deletes them", count)
}

// Describe implements prometheus.Collector.
func (o *Orphans) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- descOrphans }

// Collect implements prometheus.Collector.
func (o *Orphans) Collect(metrics chan<- prometheus.Metric) {
	count := map[string]int{}
	o.mu.Lock()
	for _, orphan := range o.found {
		if orphan.looks >= looksToReport {
			count[orphan.Reason()]++
		}
	}
	o.mu.Unlock()
	for _, reason := range orphans.Reasons() {
		metrics <- prometheus.MustNewConstMetric(descOrphans, prometheus.GaugeValue, float64(count[reason]), reason)
	}
}
