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

// ConditionConfigured tells of a Service whether its load balancer is what it asks for. Its False reasons say what
// keeps it from being so.
const ConditionConfigured = "quaymaster.dev/LoadBalancerConfigured"

// The reasons of ConditionConfigured.
const (
	// reasonConfigured: the cloud has what the Service asks for.
	reasonConfigured = "Configured"
	// reasonInvalid: the Service's annotations or spec are wrong; the last good load balancer stays.
	reasonInvalid = "InvalidConfiguration"
	// reasonRefused: the cloud refuses what the Service asks for.
	reasonRefused = "RefusedByCloud"
	// reasonPending: the cloud has not finished yet what the Service asks for.
	reasonPending = "Pending"
	// reasonProtected: the Service is to be deleted, but its load balancer is protected.
	reasonProtected = "DeletionProtected"
)

const (
	fieldManager = "quaymaster-controllers"
	// longestMessage is the API's limit of a condition's message.
	longestMessage = 32768
)

// conditions keep ConditionConfigured by server-side apply, which leaves the rest of the status to its other writers.
type conditions struct {
	services typedcorev1.ServicesGetter
	clock    clock.PassiveClock
}

// set writes the condition if it differs.
func (c *conditions) set(ctx context.Context, svc *corev1.Service, status metav1.ConditionStatus, reason, message string) error {
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

// clear takes the condition from a Service that is no load balancer of ours any more.
func (c *conditions) clear(ctx context.Context, svc *corev1.Service) error {
	if meta.FindStatusCondition(svc.Status.Conditions, ConditionConfigured) == nil {
		return nil
	}
	return c.apply(ctx, svc)
}

func (c *conditions) apply(ctx context.Context, svc *corev1.Service, list ...*applymetav1.ConditionApplyConfiguration) error {
	status := applycorev1.ServiceStatus().WithConditions(list...)
	// The UID keeps the condition from a Service of the same name that came after this one.
	object := applycorev1.Service(svc.Name, svc.Namespace).WithUID(svc.UID).WithStatus(status)
	_, err := c.services.Services(svc.Namespace).ApplyStatus(ctx, object,
		metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	// So the API server answers a UID for which there is no Service, or another by that name.
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
