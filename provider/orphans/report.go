package orphans

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
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"quaymaster.dev/provider/mirror"
	"quaymaster.dev/provider/ownership"
)

// ReporterName is the name of the controller that reports orphans.
const ReporterName = "load-balancer-orphan-controller"

const (
	// orphanPeriod is the time between two looks for orphans.
	orphanPeriod = 5 * time.Minute
	// looksToReport is how many looks in a row must find an orphan before it is reported.
	looksToReport = 2
)

// eventOrphans is the reason of the Event about orphans, of the namespace kube-system.
const eventOrphans = "LoadBalancersWithoutService"

var desc = prometheus.NewDesc("quaymaster_load_balancer_orphans",
	"Load balancers with the tag of this cluster that no Service uses, by the reason why they must not be deleted, or "+
		"unused if they may.",
	[]string{"reason"}, nil)

// ReporterOptions holds the dependencies of a Reporter.
type ReporterOptions struct {
	Cluster  *ownership.Cluster
	Mirror   *mirror.Mirror
	Services corelisters.ServiceLister
	// Owned reports whether a Service asks for a load balancer of ours.
	Owned func(*corev1.Service) bool
	// Recorder emits the Event about orphans.
	Recorder record.EventRecorder
}

// Reporter reports orphans in an Event and in a metric.
type Reporter struct {
	o ReporterOptions

	mu sync.Mutex
	// found are the orphans of the last look by their IDs.
	found map[string]sighting
}

// sighting is an orphan and the number of looks in a row that have found it. The first one does not count: the copies of
// the cloud and of the Services may differ for a moment.
type sighting struct {
	Orphan

	looks int
}

var _ prometheus.Collector = (*Reporter)(nil)

// NewReporter returns a Reporter. It does no I/O.
func NewReporter(o ReporterOptions) *Reporter { return &Reporter{o: o} }

// Run looks for orphans until ctx ends.
func (r *Reporter) Run(ctx context.Context) { wait.UntilWithContext(ctx, r.Look, orphanPeriod) }

// Look looks for orphans, and reports those that two looks in a row have found.
func (r *Reporter) Look(ctx context.Context) {
	if !r.o.Mirror.LoadBalancers.Synced() {
		return
	}
	services, _ := r.o.Services.List(labels.Everything()) // the lister of an informer does not fail
	appeared := r.note(Find(r.o.Mirror.LoadBalancers.List(), services, r.o.Owned))
	if len(appeared) == 0 {
		return
	}
	for _, orphan := range appeared {
		klog.FromContext(ctx).Info("Found a load balancer without a Service", "id", orphan.ID, "name", orphan.Name,
			"addresses", orphan.LoadBalancer.Addresses(), "reason", orphan.Reason())
	}
	r.event(ctx, len(appeared))
}

// note remembers what a look has found, and returns what is to be reported for the first time.
func (r *Reporter) note(found []Orphan) []Orphan {
	r.mu.Lock()
	defer r.mu.Unlock()
	var appeared []Orphan
	still := map[string]sighting{}
	for _, orphan := range found {
		looks := r.found[orphan.ID].looks + 1
		still[orphan.ID] = sighting{Orphan: orphan, looks: looks}
		if looks == looksToReport {
			appeared = append(appeared, orphan)
		}
	}
	r.found = still
	return appeared
}

// event emits one Event about new orphans. Their Services may no longer exist, so it is about the namespace whose UID is
// the cluster's.
func (r *Reporter) event(ctx context.Context, count int) {
	uid, err := r.o.Cluster.UID(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not emit an Event about load balancers without a Service")
		return
	}
	about := &corev1.ObjectReference{
		Kind: "Namespace", APIVersion: "v1", Name: metav1.NamespaceSystem, UID: types.UID(uid),
	}
	r.o.Recorder.Eventf(about, corev1.EventTypeWarning, eventOrphans,
		"Found %d load balancers without a Service; they are kept because their addresses may be in use; quayctl orphans "+
			"lists and deletes them", count)
}

// Describe implements prometheus.Collector.
func (r *Reporter) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- desc }

// Collect implements prometheus.Collector.
func (r *Reporter) Collect(metrics chan<- prometheus.Metric) {
	count := map[string]int{}
	r.mu.Lock()
	for _, orphan := range r.found {
		if orphan.looks >= looksToReport {
			count[orphan.Reason()]++
		}
	}
	r.mu.Unlock()
	for _, reason := range Reasons() {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(count[reason]), reason)
	}
}
