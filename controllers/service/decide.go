package service

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
)

// action is what a Service needs.
type action int

const (
	// leave: the Service is not ours.
	leave action = iota
	// ensure: the Service asks for a load balancer of ours.
	ensure
	// remove: the Service had a load balancer of ours, and no longer asks for one.
	remove
)

// ownership decides what Services need, for a controller with a loadBalancerClass.
type ownership struct{ class string }

// decide returns what a Service needs. owned is true if its type and class ask for a load balancer of ours.
func (o ownership) decide(svc *corev1.Service, owned bool) action {
	switch {
	case owned && svc.DeletionTimestamp == nil:
		return ensure
	case !owned && classless(svc) && svc.DeletionTimestamp == nil:
		return leave
	case owned && servicehelpers.HasLBFinalizer(svc), o.held(svc, owned):
		return remove
	}
	return leave
}

// classless reports whether a Service asks for a load balancer without naming a class. If it is not ours, but was, then
// because our configuration has changed, which must not delete load balancers.
func classless(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.Spec.LoadBalancerClass == nil
}

// held reports whether the Service was ours and has not been cleaned up. Replacing the whole Service loses the claim, and
// the stock controller has none, so that on a Service that is not another controller's, record and conditions are
// enough.
func (o ownership) held(svc *corev1.Service, owned bool) bool {
	if claim, found := svc.Annotations[AnnotationClaim]; found || others(svc, owned) {
		return found && claim == o.class
	}
	_, recorded := svc.Annotations[AnnotationRecord]
	return recorded || slices.ContainsFunc(svc.Status.Conditions, isOurs)
}

// others reports whether a Service asks another controller for a load balancer.
func others(svc *corev1.Service, owned bool) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && !owned
}

func isOurs(c metav1.Condition) bool { return strings.HasPrefix(c.Type, ConditionPrefix) }

// claim puts finalizer and claim on a Service.
func (o ownership) claim(svc *corev1.Service) {
	if !servicehelpers.HasLBFinalizer(svc) {
		svc.Finalizers = append(svc.Finalizers, servicehelpers.LoadBalancerCleanupFinalizer)
	}
	metav1.SetMetaDataAnnotation(&svc.ObjectMeta, AnnotationClaim, o.class)
}

// release removes everything of ours from a Service whose load balancer is gone. The addresses that a Service of another
// controller publishes are that controller's.
func (o ownership) release(svc *corev1.Service, owned bool) {
	svc.Finalizers = slices.DeleteFunc(svc.Finalizers, func(name string) bool {
		return name == servicehelpers.LoadBalancerCleanupFinalizer
	})
	delete(svc.Annotations, AnnotationRecord)
	delete(svc.Annotations, AnnotationClaim)
	svc.Status.Conditions = slices.DeleteFunc(svc.Status.Conditions, isOurs)
	if svc.DeletionTimestamp == nil && !others(svc, owned) {
		svc.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
}
