package service

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quaymaster.dev/internal/rules"
	"quaymaster.dev/webhook"
)

const (
	kind = "Service"
	// mostWarningBytes is what an API server passes on to the user, in all.
	mostWarningBytes = 4096
)

// Keys of audit annotations; the API server puts the webhook's name before them.
const (
	auditDenied    = "denied"
	auditWarned    = "warned"
	auditDefaulted = "defaulted"
)

// ValidatorOptions are what a Validator needs.
type ValidatorOptions struct {
	// Review judges a Service; oldSvc is nil on creation. It reads the Services only.
	Review func(oldSvc, newSvc *corev1.Service) []rules.Finding
	// OnFinding is told of each finding, for metrics; nil if nobody wants to know.
	OnFinding func(rules.Finding)
}

// Validator refuses Services with errors and shows warnings.
type Validator struct{ o ValidatorOptions }

var _ webhook.Reviewer = (*Validator)(nil)

// NewValidator makes the reviewer of the validating webhook.
func NewValidator(o ValidatorOptions) *Validator { return &Validator{o: o} }

// Review refuses with 422 Invalid and one cause a problem.
func (v *Validator) Review(ctx context.Context, req *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	oldSvc, newSvc, err := decodePair(req)
	if err != nil {
		return nil, err
	}
	if beingDeleted(newSvc) {
		return allow(), nil
	}
	findings := v.o.Review(oldSvc, newSvc)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("review took too long: %w", err)
	}
	if v.o.OnFinding != nil {
		for _, f := range findings {
			v.o.OnFinding(f)
		}
	}
	response := allow()
	response.Warnings = bounded(rules.Warnings(findings))
	response.AuditAnnotations = auditOf(findings)
	if len(rules.Errors(findings)) > 0 {
		response.Allowed = false
		response.Result = rules.InvalidStatus(schema.GroupKind{Kind: kind}, nameOf(newSvc), findings)
		response.Result.Code = http.StatusUnprocessableEntity
	}
	return response, nil
}

// bounded leaves out what the API server would not pass on.
func bounded(warnings []string) []string {
	size := 0
	for i, warning := range warnings {
		if size += len(warning); size > mostWarningBytes {
			return append(warnings[:i:i], fmt.Sprintf("and %d more", len(warnings)-i))
		}
	}
	return warnings
}

// nameOf is what the user knows the Service by: one with generateName has no name yet.
func nameOf(svc *corev1.Service) string {
	if svc.Name == "" {
		return svc.GenerateName
	}
	return svc.Name
}

// auditOf names the rules behind a verdict, so that the audit log answers why.
func auditOf(findings []rules.Finding) map[string]string {
	var audit map[string]string
	for key, severity := range map[string]rules.Severity{auditDenied: rules.Error, auditWarned: rules.Warning} {
		var ids []string
		for _, f := range findings {
			if f.Severity == severity {
				ids = append(ids, f.ID)
			}
		}
		if len(ids) == 0 {
			continue
		}
		if audit == nil {
			audit = map[string]string{}
		}
		slices.Sort(ids)
		audit[key] = strings.Join(slices.Compact(ids), ",")
	}
	return audit
}
