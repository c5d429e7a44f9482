package service

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"quaymaster.dev/internal/kube/condition"
)

// finalizerPrefix begins the finalizers of Quaymaster. They outlive this program: they must not change.
const finalizerPrefix = "service.quaymaster.dev/"

// longestName is the API's limit for the name in a finalizer, without its prefix.
const longestName = 63

// Finalizer returns the finalizer of the controller with a loadBalancerClass. It is on a Service from before its load
// balancer is created until that is gone, whatever the Service asks for meanwhile. The class is part of it because a
// Service of another class is only to be cleaned up if it was ours: it may have that class because our configuration has
// changed, or belong to another Quaymaster in the same cluster.
func Finalizer(class string) string {
	name := strings.ReplaceAll(class, "/", "_")
	if len(name) > longestName {
		sum := sha256.Sum256([]byte(class))
		name = hex.EncodeToString(sum[:16])
	}
	return finalizerPrefix + name
}

// Held reports whether a Service has, or had, a load balancer of Quaymaster that has yet to go, whatever its class.
func Held(svc *corev1.Service) bool {
	return slices.ContainsFunc(svc.Finalizers, isQuaymasters) || former(svc)
}

func isQuaymasters(finalizer string) bool { return strings.HasPrefix(finalizer, finalizerPrefix) }

// former reports whether a Service without a finalizer of Quaymaster was ours. Earlier versions have used the
// finalizer that controllers of load balancers share, together with the record or, before that, the claim. A client that
// replaces the whole Service removes all of them, but not the conditions.
func former(svc *corev1.Service) bool {
	_, recorded := svc.Annotations[AnnotationRecord]
	_, claimed := svc.Annotations[annotationClaim]
	return recorded || claimed || slices.ContainsFunc(svc.Status.Conditions, isOurs)
}

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
type ownership struct{ finalizer string }

// decide returns what a Service needs. owned is true if its type and class ask for a load balancer of ours.
func (o ownership) decide(svc *corev1.Service, owned bool) action {
	switch deleting := svc.DeletionTimestamp != nil; {
	case owned && !deleting:
		return ensure
	case !owned && classless(svc) && !deleting:
		return leave
	case o.holds(svc, owned):
		return remove
	}
	return leave
}

// classless reports whether a Service asks for a load balancer without naming a class. If it is not ours, but was, then
// because our configuration has changed, which must not delete load balancers.
func classless(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.Spec.LoadBalancerClass == nil
}

// has reports whether a Service has the finalizer.
func (o ownership) has(svc *corev1.Service) bool { return slices.Contains(svc.Finalizers, o.finalizer) }

// holds reports whether the Service was ours and has not been cleaned up. Without a finalizer, that of another controller
// is not ours.
func (o ownership) holds(svc *corev1.Service, owned bool) bool {
	if slices.ContainsFunc(svc.Finalizers, isQuaymasters) {
		return o.has(svc)
	}
	return owned && servicehelpers.HasLBFinalizer(svc) || !others(svc, owned) && former(svc)
}

// others reports whether a Service asks another controller for a load balancer.
func others(svc *corev1.Service, owned bool) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && !owned
}

// claim puts the finalizer on a Service that asks for a load balancer of ours; without a class, in place of that for the
// class that was configured before. With it comes the one that controllers of load balancers share, which users and
// Kubernetes' own tests look for. What another controller makes of that one later is not our affair.
func (o ownership) claim(svc *corev1.Service) {
	svc.Finalizers = slices.DeleteFunc(svc.Finalizers, func(name string) bool {
		return classless(svc) && isQuaymasters(name) && name != o.finalizer
	})
	if !o.has(svc) {
		svc.Finalizers = append(svc.Finalizers, o.finalizer)
		if !servicehelpers.HasLBFinalizer(svc) {
			svc.Finalizers = append(svc.Finalizers, servicehelpers.LoadBalancerCleanupFinalizer)
		}
	}
	delete(svc.Annotations, annotationClaim)
}

// release removes everything of ours from a Service whose load balancer is gone. The shared finalizer and the addresses of
// a Service of another controller are that controller's.
func (o ownership) release(svc *corev1.Service, owned bool) {
	svc.Finalizers = slices.DeleteFunc(svc.Finalizers, func(name string) bool {
		return name == o.finalizer || name == servicehelpers.LoadBalancerCleanupFinalizer && !others(svc, owned)
	})
	delete(svc.Annotations, AnnotationRecord)
	delete(svc.Annotations, annotationClaim)
	svc.Status.Conditions = slices.DeleteFunc(svc.Status.Conditions, isOurs)
	if svc.DeletionTimestamp == nil && !others(svc, owned) {
		svc.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
}

func isOurs(c metav1.Condition) bool { return strings.HasPrefix(c.Type, condition.Prefix) }
