package service

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/review"
	"quaymaster.dev/webhook"
)

// Validator refuses Services with errors and returns warnings.
type Validator struct {
	reader

	o Options
}

var _ webhook.Admitter = (*Validator)(nil)

// NewValidator returns the admitter of the validating webhook.
func NewValidator(o Options) *Validator { return &Validator{o: o} }

// Admit refuses Services with errors: 422 Invalid with one cause per problem.
func (v *Validator) Admit(ctx context.Context, req *webhook.Request) (*admissionv1.AdmissionResponse, error) {
	oldSvc, newSvc := webhook.Objects[*corev1.Service](req)
	findings := append(v.review(ctx, req.Namespace, oldSvc, newSvc), probed(newSvc)...)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("review service: %w", err)
	}
	return webhook.Respond(newSvc, findings, v.o.OnFinding), nil
}

// review validates a Service. Only load balancers have findings.
func (v *Validator) review(ctx context.Context, namespace string, oldSvc, newSvc *corev1.Service) []finding.Finding {
	if !isLoadBalancer(newSvc) {
		return nil
	}
	applicable, err := v.o.Policies.Applicable(ctx, namespace)
	findings := v.o.Reviewer.Review(oldSvc, newSvc, applicable)
	if err != nil {
		remedy := "check it later with quayctl audit"
		if v.o.Reviewer.Served(newSvc) {
			remedy = "the controllers check it before they change the cloud"
		}
		f := unavailable(ctx, newSvc, review.IDPoliciesUnavailable,
			"was not validated by policies, because they are not available", remedy, err)
		findings = finding.Merge(append(findings, f))
	}
	return findings
}
