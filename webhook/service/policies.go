package service

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/policy"
)

// The findings when policies cannot be known, which is never the user's fault.
const (
	// idDefaultsUnavailable: a Service is admitted without its defaults.
	idDefaultsUnavailable = "defaults-unavailable"
	// idPoliciesUnavailable: a Service is judged by everything but policies.
	idPoliciesUnavailable = "policies-unavailable"
)

// Policies know what platform teams say about namespaces.
type Policies interface {
	// Applicable are the policies of a namespace, in the order in which their defaults win. An error means that they cannot be
	// known now.
	Applicable(ctx context.Context, namespace string) ([]*policy.Policy, error)
}

// Rules documents the findings of this package.
func Docs() []finding.Doc {
	return []finding.Doc{
		{ID: idDefaultsUnavailable, Severity: finding.Warning, Help: "A Service was admitted without its defaults, because policies could not be read. The controllers apply them."},
		{ID: idProbe, Severity: finding.Error, Help: "A load balancer has the annotation quaymaster.dev/probe, which asks for a refusal: quayctl doctor tries so whether Services are judged."},
		{ID: idPoliciesUnavailable, Severity: finding.Warning, Help: "A Service was admitted without being judged by policies, because they could not be read. The controllers judge it again."},
	}
}

// unavailable is a finding about us, which is counted, told and logged.
func unavailable(ctx context.Context, svc *corev1.Service, id, message string, cause error) finding.Finding {
	klog.FromContext(ctx).Error(cause, "Policies are not known", "service", klog.KObj(svc), "rule", id)
	return finding.Finding{
		ID: id, Severity: finding.Warning, Field: "metadata.annotations", Message: message, Remedy: "the controllers do that later",
	}
}
