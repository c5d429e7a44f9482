package webhook

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quaymaster.dev/internal/rules/finding"
)

const (
	// DefaultBudget bounds how long an Admitter waits for other systems, such as the cloud. It leaves one of the three
	// seconds that the API server waits.
	DefaultBudget = 2 * time.Second

	// maxWarningBytes is the total length of warnings that an API server passes on to the user.
	maxWarningBytes = 4096
)

// Keys of audit annotations; the API server prefixes them with the webhook's name. Their values are finding ids.
const (
	auditDenied  = "denied"
	auditWarned  = "warned"
	auditAudited = "audited"
)

// Admitter decides on the creation and the updates of objects of one kind. It is not called for an object that is being
// deleted, which needs no validation: finalizers must be removable.
type Admitter struct {
	// Resource and Kind are those of the objects. Without them, objects of any kind are decided on.
	Resource schema.GroupVersionResource
	Kind     string
	// Decodable returns what an object is decoded into.
	Decodable func() Decodable
	// Admit returns a response; the handler sets its UID. An error means that there is no decision. Admit must respect the
	// deadline of the context.
	Admit func(ctx context.Context, req *Request) (*admissionv1.AdmissionResponse, error)
}

// Allow returns a response that admits an object without warnings.
func Allow() *admissionv1.AdmissionResponse { return &admissionv1.AdmissionResponse{Allowed: true} }

// Respond turns findings about the new object into a response, and counts them: errors deny the object with 422 Invalid and
// one cause per error, warnings are shown to the user.
func (r *Request) Respond(findings []finding.Finding) *admissionv1.AdmissionResponse {
	response := Allow()
	response.Warnings = truncateWarnings(finding.Warnings(findings))
	ids := map[finding.Severity][]string{}
	for _, f := range findings {
		r.handler.count(f)
		ids[f.Severity] = append(ids[f.Severity], f.ID)
	}
	audit(response, auditDenied, ids[finding.Error])
	audit(response, auditWarned, ids[finding.Warning])
	audit(response, auditAudited, ids[finding.Audit])
	if finding.Deny(findings) {
		response.Allowed = false
		kind := r.New.GetObjectKind().GroupVersionKind().GroupKind()
		// An object with generateName has no name yet.
		response.Result = finding.InvalidStatus(kind, cmp.Or(r.New.GetName(), r.New.GetGenerateName()), findings)
		response.Result.Code = http.StatusUnprocessableEntity
	}
	return response
}

// truncateWarnings drops the warnings that the API server would not pass on.
func truncateWarnings(warnings []string) []string {
	size := 0
	for i, warning := range warnings {
		if size += len(warning); size > maxWarningBytes {
			return append(warnings[:i:i], fmt.Sprintf("and %d more", len(warnings)-i))
		}
	}
	return warnings
}

// AuditChange records in the response what was added to the object, so that the audit log shows where it comes from.
func AuditChange(response *admissionv1.AdmissionResponse, key string, added map[string]string) {
	pairs := make([]string, 0, len(added))
	for name, value := range added {
		pairs = append(pairs, name+"="+value)
	}
	audit(response, key, pairs)
}

// audit records a list in an audit annotation, so that the audit log shows it.
func audit(response *admissionv1.AdmissionResponse, key string, ids []string) {
	if len(ids) == 0 {
		return
	}
	if response.AuditAnnotations == nil {
		response.AuditAnnotations = map[string]string{}
	}
	slices.Sort(ids)
	response.AuditAnnotations[key] = strings.Join(slices.Compact(ids), ",")
}
