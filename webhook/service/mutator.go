package service

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/policy"
	"quaymaster.dev/internal/review"
	"quaymaster.dev/webhook"
)

// auditDefaulted is the audit annotation with what was added.
const auditDefaulted = "defaulted"

// MutatorOptions are what a Mutator needs.
type MutatorOptions struct {
	// Reviewer knows the defaults of policies and the built-in ones.
	Reviewer review.Reviewer
	// Policies are those of namespaces.
	Policies Policies
	// OnFinding is told of each finding, for metrics; nil if nobody wants to know.
	OnFinding func(finding.Finding)
}

// Mutator writes defaults into Services that become load balancers. It adds annotations, and corrects the one that tells where they
// come from; calling it again changes nothing.
type Mutator struct{ o MutatorOptions }

var _ webhook.Admitter = (*Mutator)(nil)

// NewMutator makes the admitter of the mutating webhook.
func NewMutator(o MutatorOptions) *Mutator { return &Mutator{o: o} }

// Admit never refuses.
func (m *Mutator) Admit(ctx context.Context, req *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	oldSvc, newSvc, err := decodePair(req)
	if err != nil {
		return nil, err
	}
	switch {
	case beingDeleted(newSvc) || !isLoadBalancer(newSvc):
		return webhook.Allow(), nil
	case isLoadBalancer(oldSvc):
		// A load balancer that was one before keeps what it has: whoever removed a default meant to, if that can be at all.
		return add(newSvc, policy.CarryOver(oldSvc, newSvc))
	}
	applicable, err := m.o.Policies.Applicable(ctx, req.Namespace)
	if err != nil {
		f := unavailable(ctx, newSvc, idDefaultsUnavailable, "defaults were not added, because policies cannot be read at the moment", err)
		return webhook.Respond(schema.GroupKind{Kind: kind}, webhook.ObjectName(newSvc.ObjectMeta), []finding.Finding{f}, m.o.OnFinding), nil
	}
	return add(newSvc, m.o.Reviewer.Defaults(newSvc, applicable))
}

// add is the answer that gives the Service annotations.
func add(svc *corev1.Service, annotations map[string]string) (*admissionv1.AdmissionResponse, error) {
	response := webhook.Allow()
	var patch webhook.Patch
	patch.AddEntries("/metadata/annotations", svc.Annotations, annotations)
	webhook.AuditChange(response, auditDefaulted, annotations)
	return response, patch.Into(response)
}

func isLoadBalancer(svc *corev1.Service) bool {
	return svc != nil && svc.Spec.Type == corev1.ServiceTypeLoadBalancer
}
