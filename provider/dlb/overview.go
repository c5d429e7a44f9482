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

	"quaymaster.dev/internal/loadbalancer"
)

// What metrics say of a Service besides the reasons of ConditionConfigured.
const (
	// reasonFailing: the last try failed for what is not the Service's fault, such as a cloud that does not answer.
	reasonFailing = "SyncFailing"
	// reasonUnreported: nothing has come of the Service yet.
	reasonUnreported = "Unreported"
)

func conditionReasons() []string {
	return []string{reasonConfigured, reasonInvalid, reasonRefused, reasonPending, reasonProtected}
}

var (
	descServices = prometheus.NewDesc("quaymaster_load_balancer_services",
		"Services that are load balancers of ours, by what has come of them.", []string{"reason"}, nil)
	descUnsettled = prometheus.NewDesc("quaymaster_load_balancer_unsettled_timestamp_seconds",
		"Since when a load balancer is not what its Service asks for: the longest of those with the reason, 0 if there is none.",
		[]string{"reason"}, nil)
)

// overview counts Services by what has come of them. It knows that from their conditions and from the last try, so that
// it asks the cloud for nothing.
type overview struct {
	services corelisters.ServiceLister
	options  loadbalancer.Options
	clock    clock.PassiveClock

	mu sync.Mutex
	// failing are the Services of which the last try failed, and since when every try did.
	failing map[types.UID]time.Time
}

var _ prometheus.Collector = (*overview)(nil)

// note keeps in mind how a try ended.
func (o *overview) note(svc *corev1.Service, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		delete(o.failing, svc.UID)
	} else if _, already := o.failing[svc.UID]; !already {
		o.failing[svc.UID] = o.clock.Now()
	}
}

// Describe is the first half of being a collector.
func (o *overview) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- descServices
	descriptions <- descUnsettled
}

// Collect counts.
func (o *overview) Collect(metrics chan<- prometheus.Metric) {
	services, err := o.services.List(labels.Everything())
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(descServices, err)
		return
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
		if !loadbalancer.Owned(svc, o.options) && meta.FindStatusCondition(svc.Status.Conditions, ConditionConfigured) == nil {
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
	// Nobody tells of Services that are gone.
	o.failing = still
	return count, unsettled
}

// standing is what has come of a Service and, unless it is as configured, since when it is not. failing is since when
// every try failed, zero if the last one did not.
func standing(svc *corev1.Service, failing time.Time) (reason string, since time.Time) {
	condition := meta.FindStatusCondition(svc.Status.Conditions, ConditionConfigured)
	switch {
	case condition != nil && condition.Status == metav1.ConditionFalse && slices.Contains(conditionReasons(), condition.Reason):
		return condition.Reason, condition.LastTransitionTime.Time
	case !failing.IsZero():
		return reasonFailing, failing
	case condition != nil && condition.Status == metav1.ConditionTrue:
		return reasonConfigured, time.Time{}
	}
	return reasonUnreported, svc.CreationTimestamp.Time
}
