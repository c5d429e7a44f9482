// Package overview counts Services by the state of their load balancers. It takes that from their conditions and from the
// last try, so it needs no requests to the cloud.
package overview

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

	"quaymaster.dev/internal/kube/condition"
)

// The reasons of condition.Configured that are not reasons of a refusal.
const (
	// Configured: the cloud has what the Service asks for.
	Configured = "Configured"
	// Failing: the last try failed for a reason outside the Service, such as a cloud that does not respond.
	Failing = "SyncFailing"
	// unreported is the reason in metrics for a Service that has not been reconciled yet.
	unreported = "Unreported"
)

var (
	descServices = prometheus.NewDesc("quaymaster_load_balancer_services",
		"Services of type LoadBalancer handled by this controller, by the state of their load balancers.",
		[]string{"reason"}, nil)
	descUnsettled = prometheus.NewDesc("quaymaster_load_balancer_unsettled_timestamp_seconds",
		"Time since which a load balancer is not what its Service asks for: the earliest of those with the reason, "+
			"0 if there is none.",
		[]string{"reason"}, nil)
	descDegraded = prometheus.NewDesc("quaymaster_load_balancer_degraded_services",
		"Services whose load balancers do not serve as they should, by the reason.", []string{"reason"}, nil)
	descDegradedSince = prometheus.NewDesc("quaymaster_load_balancer_degraded_timestamp_seconds",
		"Time since which a load balancer does not serve as it should: the earliest of those with the reason, 0 if there "+
			"is none.", []string{"reason"}, nil)
)

// Options holds the dependencies of an Overview.
type Options struct {
	Services corelisters.ServiceLister
	// Owned reports whether a Service asks for a load balancer of ours.
	Owned func(*corev1.Service) bool
	// Refusals are the other reasons of condition.Configured, Degradations those of condition.Degraded.
	Refusals, Degradations []string
	Clock                  clock.PassiveClock
}

// Overview counts Services.
type Overview struct {
	o Options

	mu sync.Mutex
	// failing has the Services whose last try failed, with the time of the first failure in a row.
	failing map[types.UID]time.Time
}

var _ prometheus.Collector = (*Overview)(nil)

// New returns an Overview. It does no I/O.
func New(o Options) *Overview { return &Overview{o: o, failing: map[types.UID]time.Time{}} }

// Note records the result of a try.
func (o *Overview) Note(svc *corev1.Service, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		delete(o.failing, svc.UID)
	} else if _, already := o.failing[svc.UID]; !already {
		o.failing[svc.UID] = o.o.Clock.Now()
	}
}

// Describe implements prometheus.Collector.
func (o *Overview) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descServices, descUnsettled, descDegraded, descDegradedSince} {
		descriptions <- d
	}
}

// Collect implements prometheus.Collector.
func (o *Overview) Collect(metrics chan<- prometheus.Metric) {
	services, err := o.o.Services.List(labels.Everything())
	if err != nil {
		metrics <- prometheus.NewInvalidMetric(descServices, err)
		return
	}
	degraded, states := o.count(services)
	for _, reason := range o.o.Degradations {
		degraded.collect(metrics, reason, descDegraded, descDegradedSince)
	}
	states.collect(metrics, Configured, descServices)
	for _, reason := range slices.Concat(o.o.Refusals, []string{Failing, unreported}) {
		states.collect(metrics, reason, descServices, descUnsettled)
	}
}

// tally has the number of Services, and the earliest of their times, by reason.
type tally map[string]struct {
	count int
	since int64
}

func (t tally) add(reason string, since time.Time) {
	sum, at := t[reason], since.Unix()
	if sum.count++; sum.count == 1 || at < sum.since {
		sum.since = at
	}
	t[reason] = sum
}

// collect passes on the number for a reason and, with another description, the time.
func (t tally) collect(metrics chan<- prometheus.Metric, reason string, descs ...*prometheus.Desc) {
	for i, value := range []float64{float64(t[reason].count), float64(t[reason].since)}[:len(descs)] {
		metrics <- prometheus.MustNewConstMetric(descs[i], prometheus.GaugeValue, value, reason)
	}
}

// count counts Services by the condition about the data plane, and by the state of their load balancers. The time of the
// former is that since which it holds, whatever the reason was at first and however often the Service has changed since.
func (o *Overview) count(services []*corev1.Service) (degraded, states tally) {
	o.mu.Lock()
	defer o.mu.Unlock()
	degraded, states = tally{}, tally{}
	still := map[types.UID]time.Time{}
	for _, svc := range services {
		owned := o.o.Owned(svc)
		c := meta.FindStatusCondition(svc.Status.Conditions, condition.Degraded)
		if owned && c != nil && c.Status == metav1.ConditionTrue {
			degraded.add(c.Reason, c.LastTransitionTime.Time)
		}
		if !owned && meta.FindStatusCondition(svc.Status.Conditions, condition.Configured) == nil {
			continue
		}
		failing, fails := o.failing[svc.UID]
		if fails {
			still[svc.UID] = failing
		}
		states.add(o.standing(svc, failing))
	}
	// Deleted Services are not reported, so they are dropped here.
	o.failing = still
	return degraded, states
}

// standing returns the state of a Service's load balancer and, unless it is configured as requested, since when.
// failing is the time of the first failed try in a row, or zero if the last try succeeded.
func (o *Overview) standing(svc *corev1.Service, failing time.Time) (reason string, since time.Time) {
	c := meta.FindStatusCondition(svc.Status.Conditions, condition.Configured)
	switch {
	case c != nil && c.Status == metav1.ConditionFalse && slices.Contains(o.o.Refusals, c.Reason):
		return c.Reason, c.LastTransitionTime.Time
	case !failing.IsZero():
		return Failing, failing
	case c != nil && c.Status == metav1.ConditionUnknown:
		return Failing, c.LastTransitionTime.Time
	case c != nil && c.Status == metav1.ConditionTrue:
		return Configured, time.Time{}
	}
	return unreported, svc.CreationTimestamp.Time
}
