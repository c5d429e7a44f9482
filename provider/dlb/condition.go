package dlb

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"
)

// ConditionConfigured is the condition of a Service that is true if its load balancer is what the Service asks for. If
// it is false, the reason is the cause.
const ConditionConfigured = "quaymaster.dev/LoadBalancerConfigured"

// The reasons of ConditionConfigured.
const (
	// reasonConfigured: the cloud has what the Service asks for.
	reasonConfigured = "Configured"
	// reasonInvalid: the Service's annotations or spec are invalid; the load balancer is kept as last configured.
	reasonInvalid = "InvalidConfiguration"
	// reasonRefused: the cloud rejected what the Service asks for.
	reasonRefused = "RefusedByCloud"
	// reasonPending: the cloud is still working on what the Service asks for.
	reasonPending = "Pending"
	// reasonProtected: the Service is being deleted, but its load balancer has deletion protection.
	reasonProtected = "DeletionProtected"
)

const (
	fieldManager = "quaymaster-controllers"
	// longestMessage is the API's limit for a condition's message, in bytes.
	longestMessage = 32768
)

// conditions writes ConditionConfigured by server-side apply, which leaves the rest of the status to its other writers.
type conditions struct {
	services typedcorev1.ServicesGetter
	clock    clock.PassiveClock
}

// set writes the condition if it differs.
func (c *conditions) set(
	ctx context.Context, svc *corev1.Service, status metav1.ConditionStatus, reason, message string,
) error {
	if len(message) > longestMessage {
		message = strings.ToValidUTF8(message[:longestMessage], "")
	}
	since := metav1.NewTime(c.clock.Now())
	if old := meta.FindStatusCondition(svc.Status.Conditions, ConditionConfigured); old != nil {
		if old.Status == status && old.Reason == reason && old.Message == message {
			return nil
		}
		if old.Status == status {
			since = old.LastTransitionTime
		}
	}
	return c.apply(ctx, svc, applymetav1.Condition().WithType(ConditionConfigured).WithStatus(status).
		WithReason(reason).WithMessage(message).WithLastTransitionTime(since))
}

// clear removes the condition from a Service that is no longer a load balancer of ours.
func (c *conditions) clear(ctx context.Context, svc *corev1.Service) error {
	if meta.FindStatusCondition(svc.Status.Conditions, ConditionConfigured) == nil {
		return nil
	}
	return c.apply(ctx, svc)
}

func (c *conditions) apply(
	ctx context.Context, svc *corev1.Service, list ...*applymetav1.ConditionApplyConfiguration,
) error {
	status := applycorev1.ServiceStatus().WithConditions(list...)
	// With the UID, the condition cannot be set on a later Service of the same name.
	object := applycorev1.Service(svc.Name, svc.Namespace).WithUID(svc.UID).WithStatus(status)
	_, err := c.services.Services(svc.Namespace).ApplyStatus(ctx, object,
		metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	// The API server returns these errors if there is no Service with the UID, or another one of that name.
	if apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
		now, readErr := c.services.Services(svc.Namespace).Get(ctx, svc.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(readErr) || readErr == nil && now.UID != svc.UID {
			return nil
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write condition %s: %w", ConditionConfigured, err)
	}
	return nil
}
