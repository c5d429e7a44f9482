// Package service implements admission for Services: the mutating webhook writes defaults into Services that become
// load balancers, the validating webhook refuses those with errors.
package service

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
)

// AnnotationProbe on a load balancer is always refused, regardless of the catalogs: with a dry run, a client can find
// out whether the API server calls the webhooks.
const AnnotationProbe = "quaymaster.dev/probe"

// Policies returns the policies of namespaces.
type Policies interface {
	// Applicable returns the policies of a namespace, in the order of precedence of their defaults. It fails while they
	// are not known.
	Applicable(ctx context.Context, namespace string) ([]*policy.Policy, error)
}

// Options are the dependencies of the Admitters of this package.
type Options struct {
	// Reviewer returns defaults, and reviews Services by catalogs and policies.
	Reviewer review.Reviewer
	// Policies returns the policies of namespaces.
	Policies Policies
}

func isLoadBalancer(svc *corev1.Service) bool {
	return svc != nil && svc.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// unavailable logs and reports that policies are not known, which is never the user's fault.
func unavailable(ctx context.Context, svc *corev1.Service, id, message, remedy string, cause error) finding.Finding {
	klog.FromContext(ctx).Error(cause, "Policies are not known", "service", klog.KObj(svc), "rule", id)
	return finding.Finding{
		ID: id, Severity: finding.Warning, Field: finding.Annotations, Message: message, Remedy: remedy,
	}
}

// probed refuses Services with AnnotationProbe.
func probed(svc *corev1.Service) []finding.Finding {
	value, set := svc.Annotations[AnnotationProbe]
	if !set || !isLoadBalancer(svc) {
		return nil
	}
	return []finding.Finding{{
		ID: review.IDProbe, Severity: finding.Error, Type: field.ErrorTypeForbidden, Value: value,
		Field:   finding.FieldOf(AnnotationProbe),
		Message: "must not be set: it only tests whether Services are validated", Remedy: "remove the key",
	}}
}
