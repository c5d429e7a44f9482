package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quaymaster.dev/internal/condition"
)

const (
	// noticing is how long it may take until the controllers process a new Service.
	noticing = time.Minute
	// settling is how long the work on a load balancer, or an outage of its backends, may take.
	settling = 5 * time.Minute
)

// fault is what is wrong with the load balancer of a Service.
type fault struct {
	// level is Fail if the operator of the installation must act, and Warn if the owner of the Service must.
	level Level
	text  string
}

// balancers checks that the load balancers of Services are as requested, by the conditions and Events of the Services.
func (e *examination) balancers(ctx context.Context) Result {
	if e.config.config == nil {
		return skip("%s", e.config.missing)
	}
	attempts := e.failedAttempts(ctx)
	count := 0
	faults := map[Level][]string{}
	err := each(ctx, metav1.ListOptions{FieldSelector: "spec.type=" + string(corev1.ServiceTypeLoadBalancer)},
		e.API.CoreV1().Services(e.Within).List, func(svc *corev1.Service) {
			if !e.ours(svc) {
				return
			}
			count++
			if f := faultOf(svc, attempts[svc.UID], e.now()); f.text != "" {
				faults[f.level] = append(faults[f.level], svc.Namespace+"/"+svc.Name+" "+f.text)
			}
		})
	if err != nil {
		return unread("Services", err)
	}
	lines := slices.Concat(firstOf(faults[Fail]), firstOf(faults[Warn]))
	const more = "the conditions in docs/guides/load-balancer-conditions.md explain each reason, and " +
		"kubectl describe service shows the Events"
	switch failed := len(faults[Fail]); {
	case failed > 0:
		return fail("first correct the checks that fail above; "+more,
			"%d of %d load balancers are not as their Services request", failed, count).with(lines)
	case len(lines) > 0:
		return warn("their owners must act; "+more, "%d of %d load balancers need attention", len(faults[Warn]),
			count).with(lines)
	case count == 0:
		return ok("there is no Service of type LoadBalancer%s", e.scope())
	}
	return ok("all %d load balancers are as their Services request%s", count, e.scope())
}

// scope says where was looked.
func (e *examination) scope() string {
	if e.Within == "" {
		return ""
	}
	return " in namespace " + e.Within
}

// ours reports whether the controllers of the release serve a Service.
func (e *examination) ours(svc *corev1.Service) bool {
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return false
	}
	if svc.Spec.LoadBalancerClass == nil {
		return e.config.config.DefaultClass
	}
	return *svc.Spec.LoadBalancerClass == e.config.config.LoadBalancerClass
}

// attempt is the last failed attempt of the controllers, according to an Event.
type attempt struct {
	at      time.Time
	message string
}

// failedAttempts returns the last failed attempts by the UID of the Service. Events only add to what the conditions say,
// so that it does not matter if they cannot be read.
func (e *examination) failedAttempts(ctx context.Context) map[types.UID]attempt {
	attempts := map[types.UID]attempt{}
	_ = each(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Service,reason=" + condition.EventFailed},
		e.API.CoreV1().Events(e.Within).List, func(event *corev1.Event) {
			uid, at := event.InvolvedObject.UID, lastSeen(event)
			if event.Reason == condition.EventFailed && at.After(attempts[uid].at) {
				attempts[uid] = attempt{at, event.Message}
			}
		})
	return attempts
}

// lastSeen returns when an Event happened last; which of its fields say so depends on its author.
func lastSeen(event *corev1.Event) time.Time {
	at := event.CreationTimestamp.Time
	if event.LastTimestamp.After(at) {
		at = event.LastTimestamp.Time
	}
	if event.Series != nil && event.Series.LastObservedTime.After(at) {
		at = event.Series.LastObservedTime.Time
	}
	return at
}

// faultOf returns what is wrong with the load balancer of a Service; its text is empty if nothing is.
func faultOf(svc *corev1.Service, failed attempt, now time.Time) fault {
	since := func(t metav1.Time) time.Duration { return now.Sub(t.Time).Round(time.Second) }
	is := meta.FindStatusCondition(svc.Status.Conditions, condition.Configured)
	if is == nil {
		age := since(svc.CreationTimestamp)
		switch {
		case age < noticing:
			return fault{}
		case failed.message != "":
			return fault{Fail, fmt.Sprintf("has no load balancer after %s: %s", age, failed.message)}
		}
		return fault{Fail, fmt.Sprintf("has not been processed by the controllers for %s", age)}
	}
	age := since(is.LastTransitionTime)
	if is.Status != metav1.ConditionTrue {
		if is.Reason == condition.ReasonPending && age < settling {
			return fault{}
		}
		level := Fail
		if slices.Contains([]string{condition.ReasonInvalid, condition.ReasonDrifted, condition.ReasonProtected}, is.Reason) {
			level = Warn
		}
		return fault{level, fmt.Sprintf("is %s for %s: %s", is.Reason, age, is.Message)}
	}
	serves := meta.FindStatusCondition(svc.Status.Conditions, condition.Degraded)
	if serves != nil && serves.Status == metav1.ConditionTrue && since(serves.LastTransitionTime) >= settling {
		return fault{Warn, fmt.Sprintf("is %s for %s: %s", serves.Reason, since(serves.LastTransitionTime), serves.Message)}
	}
	return fault{}
}
