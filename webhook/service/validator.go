package service

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/webhook"
)

// NewValidator returns the Admitter of the validating webhook. It refuses Services with errors and returns warnings.
func NewValidator(o Options) webhook.Admitter { return admitter(o.validate) }

// validate refuses Services with errors: 422 Invalid with one cause per problem.
func (o *Options) validate(ctx context.Context, req *webhook.Request) (*admissionv1.AdmissionResponse, error) {
	oldSvc, newSvc := webhook.Objects[*corev1.Service](req)
	findings := append(o.review(ctx, req.Namespace, oldSvc, newSvc), probed(newSvc)...)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("review service: %w", err)
	}
	return req.Respond(findings), nil
}

// review validates a Service. Policies only concern load balancers.
func (o *Options) review(ctx context.Context, namespace string, oldSvc, newSvc *corev1.Service) []finding.Finding {
	if !isLoadBalancer(newSvc) {
		return o.Reviewer.Review(oldSvc, newSvc, nil)
	}
	applicable, err := o.Policies.Applicable(ctx, namespace)
	findings := o.Reviewer.Review(oldSvc, newSvc, applicable)
	if err != nil {
		remedy := "check it later with quayctl audit"
		if o.Reviewer.Served(newSvc) {
			remedy = "the controllers check it before they change the cloud"
		}
		f := unavailable(ctx, newSvc, review.IDPoliciesUnavailable,
			"was not validated by policies, because they are not available", remedy, err)
		findings = finding.Merge(append(findings, f))
	}
	return findings
}
