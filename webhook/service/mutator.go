package service

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/policy"
	"quaymaster.dev/internal/review"
	"quaymaster.dev/webhook"
)

// auditDefaulted is the audit annotation that records what was added.
const auditDefaulted = "defaulted"

// Mutator writes defaults into Services that become load balancers, and keeps or refreshes those of existing ones. It
// sets annotations, and the one that records their origins. It is idempotent.
type Mutator struct {
	reader

	o Options
}

var _ webhook.Admitter = (*Mutator)(nil)

// NewMutator returns the admitter of the mutating webhook.
func NewMutator(o Options) *Mutator { return &Mutator{o: o} }

// Admit adds defaults. It never refuses a Service.
func (m *Mutator) Admit(ctx context.Context, req *webhook.Request) (*admissionv1.AdmissionResponse, error) {
	oldSvc, newSvc := webhook.Objects[*corev1.Service](req)
	switch {
	case !isLoadBalancer(newSvc):
		return webhook.Allow(), nil
	case isLoadBalancer(oldSvc):
		return m.update(ctx, req.Namespace, oldSvc, newSvc)
	}
	applicable, err := m.o.Policies.Applicable(ctx, req.Namespace)
	if err != nil {
		return webhook.Respond(newSvc, []finding.Finding{m.withoutDefaults(ctx, newSvc, err)}, m.o.OnFinding), nil
	}
	return add(newSvc, m.o.Reviewer.Defaults(newSvc, applicable), webhook.Allow())
}

// update keeps the defaults of a load balancer that is replaced as a whole, or refreshes them on request. Users may
// remove a default otherwise.
func (m *Mutator) update(
	ctx context.Context, namespace string, oldSvc, newSvc *corev1.Service,
) (*admissionv1.AdmissionResponse, error) {
	refresh := policy.RefreshRequested(oldSvc, newSvc)
	response := webhook.Allow()
	applicable, err := m.o.Policies.Applicable(ctx, namespace)
	if err != nil && refresh {
		refresh = false
		f := unavailable(ctx, newSvc, review.IDDefaultsUnavailable,
			"defaults were not refreshed, because policies are not available",
			"set "+policy.AnnotationRefresh+" to a different value later", err)
		response = webhook.Respond(newSvc, []finding.Finding{f}, m.o.OnFinding)
	}
	return add(newSvc, m.o.Reviewer.Renew(oldSvc, newSvc, applicable, refresh), response)
}

func (m *Mutator) withoutDefaults(ctx context.Context, svc *corev1.Service, cause error) finding.Finding {
	remedy := "set the annotations, or create the Service again"
	if m.o.Reviewer.Served(svc) {
		remedy = "the controllers apply those of the DLB; set other annotations yourself"
	}
	return unavailable(ctx, svc, review.IDDefaultsUnavailable,
		"defaults were not added, because policies are not available", remedy, cause)
}

// add completes the response with the annotations to set in the Service.
func add(
	svc *corev1.Service, annotations map[string]string, response *admissionv1.AdmissionResponse,
) (*admissionv1.AdmissionResponse, error) {
	var patch webhook.Patch
	patch.AddEntries("/metadata/annotations", svc.Annotations, annotations)
	webhook.AuditChange(response, auditDefaulted, annotations)
	return response, patch.Into(response)
}
