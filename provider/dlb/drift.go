package dlb

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
)

// Drift says what to do about a load balancer that was changed in the cloud.
type Drift string

// The values of Drift.
const (
	// DriftRepair writes what the Service asks for.
	DriftRepair Drift = "repair"
	// DriftReport reports the differences and writes nothing until the Service changes.
	DriftReport Drift = "report"
	// DriftOff does not compare the load balancer until the Service changes.
	DriftOff Drift = "off"
)

// Drifts returns the values of Drift.
func Drifts() []string { return []string{string(DriftRepair), string(DriftReport), string(DriftOff)} }

// longestList is the number of differences that a condition lists.
const longestList = 20

// tolerates reports whether a load balancer stays as it is although it may differ from want. It notes the differences
// that are to be reported.
func (b *Balancer) tolerates(r *round, want cloudv1.LoadBalancerSpec, lb *cloudv1.LoadBalancer) bool {
	if b.drift == DriftRepair || lb == nil || !r.record.settled(r.svc) {
		return false
	}
	if b.drift == DriftReport && !same(want, lb) {
		list := Differences(want, lb)
		if more := len(list) - longestList; more > 0 {
			list = append(list[:longestList], fmt.Sprintf("and %d more", more))
		}
		r.drifted = fmt.Sprintf("load balancer %s differs from what the service asks for, and drift is only reported; "+
			"to overwrite it, change the service: %s", lb.ID, strings.Join(list, "; "))
	}
	return true
}

// announceDrift emits the Event when drift is reported first.
func (b *Balancer) announceDrift(r *round) {
	c := meta.FindStatusCondition(r.svc.Status.Conditions, service.ConditionConfigured)
	if c == nil || c.Reason != reasonDrifted {
		b.recorder.Event(r.svc, corev1.EventTypeWarning, "LoadBalancerDrifted", r.drifted)
	}
}

// Settled reports whether the load balancer of a Service was once what the Service asks for, and the Service has not
// changed since: if the load balancer differs now, it is not because of the Service.
func Settled(svc *corev1.Service) bool {
	rec := recordOf(svc)
	return rec.settled(svc)
}

func (r *record) settled(svc *corev1.Service) bool {
	return r.Service != "" && r.Service == fingerprint(svc)
}
