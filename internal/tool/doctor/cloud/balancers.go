package cloud

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"quaymaster.dev/internal/kube/condition"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/internal/tool/doctor"
)

const (
	// noticing is how long it may take until the controllers process a new Service.
	noticing = time.Minute
	// settling is how long the work on a load balancer, or an outage of its backends, may take.
	settling = 5 * time.Minute
)

// fault is what is wrong with the load balancer of a Service.
type fault struct {
	// level is doctor.Fail if the operator of the installation must act, and doctor.Warn if the owner of the Service must.
	level doctor.Level
	text  string
}

// Balancers checks that the load balancers of Services are as requested, by the conditions and Events of the Services.
func (c *Checks) Balancers(ctx context.Context) doctor.Result {
	if c.Config == nil {
		return doctor.Skipped("%s", c.NoConfig)
	}
	attempts := doctor.LastEvents(ctx, c.API, c.Within,
		fields.Set{"involvedObject.kind": "Service", "reason": condition.EventFailed})
	own := review.Own(c.Config.LoadBalancerClass, c.Config.DefaultClass)
	count := 0
	faults := map[doctor.Level][]string{}
	err := doctor.Each(ctx, metav1.ListOptions{FieldSelector: "spec.type=" + string(corev1.ServiceTypeLoadBalancer)},
		c.API.CoreV1().Services(c.Within).List, func(svc *corev1.Service) {
			if !own.Owned(svc) {
				return
			}
			count++
			if f := faultOf(svc, attempts[svc.UID], c.Now()); f.text != "" {
				faults[f.level] = append(faults[f.level], svc.Namespace+"/"+svc.Name+" "+f.text)
			}
		})
	if err != nil {
		return doctor.Unread("Services", err)
	}
	const more = "the conditions in docs/guides/load-balancer-conditions.md explain each reason, and " +
		"kubectl describe service shows the Events"
	failed, warned := faults[doctor.Fail], faults[doctor.Warn]
	switch {
	case len(failed) > 0:
		return doctor.Failed("first correct the checks that fail above; "+more,
			"%d of %d load balancers are not as their Services request", len(failed), count).With(failed, warned)
	case len(warned) > 0:
		return doctor.Warned("their owners must act; "+more, "%d of %d load balancers need attention", len(warned),
			count).With(warned)
	case count == 0:
		return doctor.Passed("there is no Service of type LoadBalancer%s", c.Scope())
	}
	if count == 1 {
		return doctor.Passed("the only load balancer is as its Service requests%s", c.Scope())
	}
	return doctor.Passed("all %d load balancers are as their Services request%s", count, c.Scope())
}

// faultOf returns what is wrong with the load balancer of a Service; its text is empty if nothing is.
func faultOf(svc *corev1.Service, failed *corev1.Event, now time.Time) fault {
	since := func(t metav1.Time) time.Duration { return now.Sub(t.Time).Round(time.Second) }
	is := meta.FindStatusCondition(svc.Status.Conditions, condition.Configured)
	if is == nil {
		age := since(svc.CreationTimestamp)
		switch {
		case age < noticing:
			return fault{}
		case failed != nil:
			return fault{doctor.Fail, fmt.Sprintf("has no load balancer after %s: %s", age, failed.Message)}
		}
		return fault{doctor.Fail, fmt.Sprintf("has not been processed by the controllers for %s", age)}
	}
	age := since(is.LastTransitionTime)
	if is.Status != metav1.ConditionTrue {
		if is.Reason == condition.ReasonPending && age < settling {
			return fault{}
		}
		level := doctor.Fail
		if slices.Contains([]string{condition.ReasonInvalid, condition.ReasonDrifted, condition.ReasonProtected}, is.Reason) {
			level = doctor.Warn
		}
		return fault{level, fmt.Sprintf("is %s for %s: %s", is.Reason, age, is.Message)}
	}
	serves := meta.FindStatusCondition(svc.Status.Conditions, condition.Degraded)
	if serves != nil && serves.Status == metav1.ConditionTrue && since(serves.LastTransitionTime) >= settling {
		return fault{doctor.Warn, fmt.Sprintf("is %s for %s: %s", serves.Reason, since(serves.LastTransitionTime), serves.Message)}
	}
	return fault{}
}
