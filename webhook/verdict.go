package webhook

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quaymaster.dev/internal/finding"
)

// mostWarningBytes is what an API server passes on to the user, in all.
const mostWarningBytes = 4096

// Keys of audit annotations; the API server puts the webhook's name before them. Their values are the ids of the rules.
const (
	auditDenied  = "denied"
	auditWarned  = "warned"
	auditAudited = "audited"
)

// Allow admits an object without a word.
func Allow() *admissionv1.AdmissionResponse { return &admissionv1.AdmissionResponse{Allowed: true} }

// Judge refuses an object for the errors among the findings, with 422 Invalid and one cause a problem, and shows the warnings.
// onFinding is told of each finding, if it is not nil.
func Judge(kind schema.GroupKind, name string, findings []finding.Finding, onFinding func(finding.Finding)) *admissionv1.AdmissionResponse {
	if onFinding != nil {
		for _, f := range findings {
			onFinding(f)
		}
	}
	response := Allow()
	response.Warnings = bounded(finding.Warnings(findings))
	response.AuditAnnotations = auditOf(findings)
	if len(finding.Errors(findings)) > 0 {
		response.Allowed = false
		response.Result = finding.InvalidStatus(kind, name, findings)
		response.Result.Code = http.StatusUnprocessableEntity
	}
	return response
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

// auditOf names the rules behind a verdict, so that the audit log answers why.
func auditOf(findings []finding.Finding) map[string]string {
	var audit map[string]string
	for key, severity := range map[string]finding.Severity{
		auditDenied: finding.Error, auditWarned: finding.Warning, auditAudited: finding.Audit,
	} {
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

// AuditChange adds to the response what was added to the object, so that the audit log answers where it is from.
func AuditChange(response *admissionv1.AdmissionResponse, key string, added map[string]string) {
	if len(added) == 0 {
		return
	}
	if response.AuditAnnotations == nil {
		response.AuditAnnotations = map[string]string{}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(added)) {
		parts = append(parts, name+"="+added[name])
	}
	response.AuditAnnotations[key] = strings.Join(parts, ",")
}
