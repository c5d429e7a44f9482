package dlb

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/provider/dlb/tree"
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
	if b.o.Drift == DriftRepair || lb == nil || !r.record.Settled(r.svc) {
		return false
	}
	if b.o.Drift == DriftReport && !tree.Same(want, lb) {
		list := tree.Differences(want, lb)
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
		b.o.Recorder.Event(r.svc, corev1.EventTypeWarning, "LoadBalancerDrifted", r.drifted)
	}
}
