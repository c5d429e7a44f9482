package service

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/webhook"
)

// auditDefaulted is the audit annotation that records what was added.
const auditDefaulted = "defaulted"

// NewMutator returns the Admitter of the mutating webhook. It writes defaults into Services that become load balancers, and
// keeps or refreshes those of existing ones. It sets annotations, and the one that records their origins. It is idempotent.
func NewMutator(o Options) webhook.Admitter { return admitter(o.mutate) }

// mutate adds defaults. It never refuses a Service.
func (o *Options) mutate(ctx context.Context, req *webhook.Request) (*admissionv1.AdmissionResponse, error) {
	oldSvc, newSvc := webhook.Objects[*corev1.Service](req)
	switch {
	case !isLoadBalancer(newSvc):
		return webhook.Allow(), nil
	case isLoadBalancer(oldSvc):
		return o.update(ctx, req, oldSvc, newSvc)
	}
	applicable, err := o.Policies.Applicable(ctx, req.Namespace)
	if err != nil {
		return req.Respond([]finding.Finding{o.withoutDefaults(ctx, newSvc, err)}), nil
	}
	return add(newSvc, o.Reviewer.Defaults(newSvc, applicable), webhook.Allow())
}

// update keeps the defaults of a load balancer that is replaced as a whole, or refreshes them on request. Users may
// remove a default otherwise.
func (o *Options) update(
	ctx context.Context, req *webhook.Request, oldSvc, newSvc *corev1.Service,
) (*admissionv1.AdmissionResponse, error) {
	refresh := policy.RefreshRequested(oldSvc, newSvc)
	response := webhook.Allow()
	applicable, err := o.Policies.Applicable(ctx, req.Namespace)
	if err != nil && refresh {
		refresh = false
		f := unavailable(ctx, newSvc, review.IDDefaultsUnavailable,
			"defaults were not refreshed, because policies are not available",
			"set "+policy.AnnotationRefresh+" to a different value later", err)
		response = req.Respond([]finding.Finding{f})
	}
	return add(newSvc, o.Reviewer.Renew(oldSvc, newSvc, applicable, refresh), response)
}

func (o *Options) withoutDefaults(ctx context.Context, svc *corev1.Service, cause error) finding.Finding {
	remedy := "set the annotations, or create the Service again"
	if o.Reviewer.Served(svc) {
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
