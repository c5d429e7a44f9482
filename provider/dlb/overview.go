package dlb

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/clock"

	"quaymaster.dev/controllers/service"
)

// reasonUnreported is the value of the metrics' label reason for a Service that has not been reconciled yet. The others
// are the reasons of service.ConditionConfigured.
const reasonUnreported = "Unreported"

func conditionReasons() []string {
	return []string{
		reasonConfigured, reasonInvalid, reasonRefused, reasonDrifted, reasonPending, reasonProtected, reasonMissing, reasonDisowned,
		reasonAddressInUse, reasonNotHolder, reasonClusterID, reasonOtherCloud,
	}
}

var (
	descServices = prometheus.NewDesc("quaymaster_load_balancer_services",
		"Services of type LoadBalancer handled by this controller, by the state of their load balancers.",
		[]string{"reason"}, nil)
	descUnsettled = prometheus.NewDesc("quaymaster_load_balancer_unsettled_timestamp_seconds",
		"Time since which a load balancer is not what its Service asks for: the earliest of those with the reason, "+
			"0 if there is none.",
		[]string{"reason"}, nil)
)

// The metrics about the data plane, with the reasons of service.ConditionDegraded.
var (
	descDegraded = prometheus.NewDesc("quaymaster_load_balancer_degraded_services",
		"Services whose load balancers do not serve as they should, by the reason.", []string{"reason"}, nil)
	descDegradedSince = prometheus.NewDesc("quaymaster_load_balancer_degraded_timestamp_seconds",
		"Time since which a load balancer does not serve as it should: the earliest of those with the reason, 0 if there "+
			"is none.", []string{"reason"}, nil)
)

// overview counts Services by the state of their load balancers. It takes that from their conditions and from the last
// try, so it needs no requests to the cloud.
type overview struct {
	services corelisters.ServiceLister
	owned    func(*corev1.Service) bool
	clock    clock.PassiveClock

	mu sync.Mutex
	// failing has the Services whose last try failed, with the time of the first failure in a row.
	failing map[types.UID]time.Time
}

var _ prometheus.Collector = (*overview)(nil)

// note records the result of a try.
func (o *overview) note(svc *corev1.Service, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		delete(o.failing, svc.UID)
	} else if _, already := o.failing[svc.UID]; !already {
		o.failing[svc.UID] = o.clock.Now()
	}
}

// Describe implements prometheus.Collector.
func (o *overview) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- descServices
	descriptions <- descUnsettled
	descriptions <- descDegraded
	descriptions <- descDegradedSince
}

// Collect implements prometheus.Collector.
func (o *overview) Collect(metrics chan<- prometheus.Metric) {
	services, err := o.services.List(labels.Everything())
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(descServices, err)
		return
	}
	degraded, degradedSince := o.countDegraded(services)
	for _, reason := range []string{reasonOffline, reasonNoBackends, reasonDegraded} {
		metrics <- prometheus.MustNewConstMetric(
			descDegraded, prometheus.GaugeValue, float64(degraded[reason]), reason)
		metrics <- prometheus.MustNewConstMetric(
			descDegradedSince, prometheus.GaugeValue, float64(degradedSince[reason]), reason)
	}
	count, unsettled := o.count(services)
	for _, reason := range append(conditionReasons(), reasonFailing, reasonUnreported) {
		metrics <- prometheus.MustNewConstMetric(descServices, prometheus.GaugeValue, float64(count[reason]), reason)
		if reason != reasonConfigured {
			metrics <- prometheus.MustNewConstMetric(descUnsettled, prometheus.GaugeValue, float64(unsettled[reason]), reason)
		}
	}
}

func (o *overview) count(services []*corev1.Service) (count map[string]int, unsettled map[string]int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	count, unsettled = map[string]int{}, map[string]int64{}
	still := map[types.UID]time.Time{}
	for _, svc := range services {
		if !o.owned(svc) && meta.FindStatusCondition(svc.Status.Conditions, service.ConditionConfigured) == nil {
			continue
		}
		failing, fails := o.failing[svc.UID]
		if fails {
			still[svc.UID] = failing
		}
		reason, since := standing(svc, failing)
		count[reason]++
		if at := since.Unix(); reason != reasonConfigured && (unsettled[reason] == 0 || at < unsettled[reason]) {
			unsettled[reason] = at
		}
	}
	// Deleted Services are not reported, so they are dropped here.
	o.failing = still
	return count, unsettled
}

// countDegraded counts the Services whose load balancers do not serve as they should. The time is that since which
// this holds, whatever the reason was at first and however often the Service has changed since.
func (o *overview) countDegraded(services []*corev1.Service) (count map[string]int, since map[string]int64) {
	count, since = map[string]int{}, map[string]int64{}
	for _, svc := range services {
		c := meta.FindStatusCondition(svc.Status.Conditions, service.ConditionDegraded)
		if c == nil || c.Status != metav1.ConditionTrue || !o.owned(svc) {
			continue
		}
		count[c.Reason]++
		if at := c.LastTransitionTime.Unix(); since[c.Reason] == 0 || at < since[c.Reason] {
			since[c.Reason] = at
		}
	}
	return count, since
}

// standing returns the state of a Service's load balancer and, unless it is configured as requested, since when.
// failing is the time of the first failed try in a row, or zero if the last try succeeded.
func standing(svc *corev1.Service, failing time.Time) (reason string, since time.Time) {
	condition := meta.FindStatusCondition(svc.Status.Conditions, service.ConditionConfigured)
	switch {
	case condition != nil && condition.Status == metav1.ConditionFalse &&
		slices.Contains(conditionReasons(), condition.Reason):
		return condition.Reason, condition.LastTransitionTime.Time
	case !failing.IsZero():
		return reasonFailing, failing
	case condition != nil && condition.Status == metav1.ConditionUnknown:
		return reasonFailing, condition.LastTransitionTime.Time
	case condition != nil && condition.Status == metav1.ConditionTrue:
		return reasonConfigured, time.Time{}
	}
	return reasonUnreported, svc.CreationTimestamp.Time
}
