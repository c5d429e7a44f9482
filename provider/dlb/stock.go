package dlb

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"quaymaster.dev/controllers/service"
)

const (
	// fieldManager owns record and condition.
	fieldManager = "quaymaster-controllers"
	// stockRetry is the delay of the service controller while the cloud is still working.
	stockRetry = 2 * time.Second
	// stockSteps limits the steps of one call that follow each other at once, such as adoption and configuration.
	stockSteps = 3
)

// Stock implements cloudprovider.LoadBalancer for the service controller of k8s.io/cloud-provider, which publishes the
// addresses. Stock writes record and conditions itself, by server-side apply through the status, before it returns what
// to publish.
type Stock struct {
	*Balancer
	services typedcorev1.ServicesGetter
}

var _ cloudprovider.LoadBalancer = (*Stock)(nil)

// NewStock returns a Stock that writes to services.
func NewStock(b *Balancer, services typedcorev1.ServicesGetter) *Stock {
	return &Stock{Balancer: b, services: services}
}

// GetLoadBalancerName returns the plain name. If that name is taken, the load balancer's name has a suffix.
func (s *Stock) GetLoadBalancerName(_ context.Context, _ string, svc *corev1.Service) string {
	plain, _ := Names(s.clusterID, "", svc)
	return plain
}

// GetLoadBalancer returns what the Service publishes, and whether it may have a load balancer: the service controller
// calls EnsureLoadBalancerDeleted only in that case. For a Service that no longer wants a load balancer and never got
// one, this clears the condition.
func (s *Stock) GetLoadBalancer(
	ctx context.Context, _ string, svc *corev1.Service,
) (*corev1.LoadBalancerStatus, bool, error) {
	if hasRecord(svc) {
		return &svc.Status.LoadBalancer, true, nil
	}
	r, err := s.begin(ctx, svc)
	if err != nil {
		return nil, false, err
	}
	r.removing = true
	lb, err := s.seek(ctx, r)
	if err != nil {
		s.overview.note(svc, err)
		return nil, false, explain(err)
	}
	if lb == nil && svc.DeletionTimestamp == nil && !s.Owned(svc) {
		err = s.clear(ctx, svc)
	}
	return &svc.Status.LoadBalancer, lb != nil, err
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer. It ignores the nodes: pools refer to node groups.
func (s *Stock) EnsureLoadBalancer(
	ctx context.Context, _ string, svc *corev1.Service, _ []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	if !s.Owned(svc) {
		return nil, cloudprovider.ImplementedElsewhere
	}
	state, err := s.repeat(ctx, svc, s.Ensure)
	if err != nil {
		return nil, err
	}
	return state.Published, nil
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer. It succeeds only when the cloud has confirmed the
// deletion or the release.
func (s *Stock) EnsureLoadBalancerDeleted(ctx context.Context, _ string, svc *corev1.Service) error {
	if _, err := s.repeat(ctx, svc, s.Remove); err != nil {
		return err
	}
	return s.clear(ctx, svc)
}

// UpdateLoadBalancer does nothing: pools refer to node groups, whose members the ingress-node controller writes.
func (s *Stock) UpdateLoadBalancer(context.Context, string, *corev1.Service, []*corev1.Node) error {
	return cloudprovider.ImplementedElsewhere
}

// repeat calls step until it is finished, and stores each result. It returns a RetryError if the cloud is still
// working.
func (s *Stock) repeat(
	ctx context.Context, svc *corev1.Service, step func(context.Context, *corev1.Service) (service.State, error),
) (service.State, error) {
	for left := stockSteps; ; left-- {
		state, err := step(ctx, svc)
		stored, unwritten := s.store(ctx, svc, state)
		switch {
		case err != nil && unwritten != nil:
			return state, fmt.Errorf("%w; %w", err, unwritten)
		case err != nil && state.RetryAfter > 0:
			return state, &retried{error: err, retry: cloudproviderapi.NewRetryError("", state.RetryAfter)}
		case err != nil:
			return state, err
		case unwritten != nil:
			return state, unwritten
		case state.RetryAfter == 0:
			return state, nil
		case state.RetryAfter > soon || left == 1:
			return state, cloudproviderapi.NewRetryError(
				meta.FindStatusCondition(stored.Status.Conditions, service.ConditionConfigured).Message, stockRetry)
		}
		svc = stored
	}
}

// retried is an error with the time of the next try, which is not part of its text.
type retried struct {
	error

	retry error
}

func (r *retried) Unwrap() []error { return []error{r.error, r.retry} }

// store writes what differs of record and conditions, and returns the Service with them.
func (s *Stock) store(ctx context.Context, svc *corev1.Service, state service.State) (*corev1.Service, error) {
	if state.Gone {
		return svc, nil
	}
	stored, changed := svc.DeepCopy(), false
	if state.Record != "" {
		changed = true
		metav1.SetMetaDataAnnotation(&stored.ObjectMeta, service.AnnotationRecord, state.Record)
	}
	for _, c := range state.Conditions {
		changed = meta.SetStatusCondition(&stored.Status.Conditions, c) || changed
	}
	if !changed {
		return stored, nil
	}
	status := applycorev1.ServiceStatus()
	for _, c := range own(stored) {
		status.WithConditions(applymetav1.Condition().WithType(c.Type).WithStatus(c.Status).WithReason(c.Reason).
			WithMessage(c.Message).WithObservedGeneration(c.ObservedGeneration).
			WithLastTransitionTime(c.LastTransitionTime))
	}
	object := applycorev1.Service(svc.Name, svc.Namespace).WithStatus(status)
	if text := stored.Annotations[service.AnnotationRecord]; text != "" {
		object.WithAnnotations(map[string]string{service.AnnotationRecord: text})
	}
	return stored, s.apply(ctx, svc, object)
}

// own returns the conditions of a Service that are ours.
func own(svc *corev1.Service) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(svc.Status.Conditions), func(c metav1.Condition) bool {
		return !strings.HasPrefix(c.Type, service.ConditionPrefix)
	})
}

// clear removes record and conditions from a Service that has no load balancer any more.
func (s *Stock) clear(ctx context.Context, svc *corev1.Service) error {
	if len(own(svc)) == 0 && svc.Annotations[service.AnnotationRecord] == "" {
		return nil
	}
	return s.apply(ctx, svc, applycorev1.Service(svc.Name, svc.Namespace).WithStatus(applycorev1.ServiceStatus()))
}

func (s *Stock) apply(ctx context.Context, svc *corev1.Service, object *applycorev1.ServiceApplyConfiguration) error {
	// With the UID, nothing can be set on a later Service of the same name.
	_, err := s.services.Services(svc.Namespace).ApplyStatus(ctx, object.WithUID(svc.UID),
		metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	// The API server returns these errors if there is no Service with the UID, or another one of that name.
	if apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
		now, readErr := s.services.Services(svc.Namespace).Get(ctx, svc.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(readErr) || readErr == nil && now.UID != svc.UID {
			return nil
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write record and condition: %w", err)
	}
	return nil
}
