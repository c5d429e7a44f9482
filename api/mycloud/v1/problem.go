package v1

import "strings"

// The codes of problems. Clients must tolerate unknown ones.
const (
	CodeResourceNotFound     = "resource-not-found"
	CodeResourceGone         = "resource-gone"
	CodeUnauthenticated      = "unauthenticated"
	CodeForbidden            = "forbidden"
	CodeConflict             = "conflict"
	CodeLocked               = "locked"
	CodeNameTaken            = "name-taken"
	CodeDestinationTaken     = "destination-taken"
	CodeStaleRevision        = "stale-revision"
	CodePreconditionRequired = "precondition-required"
	CodeTagsMismatch         = "tags-mismatch"
	CodeFenced               = "fenced"
	CodeNotHolder            = "not-holder"
	// CodeOtherState is the code of requests of clients that have seen a different cloud or a state that was lost.
	CodeOtherState = "other-state"
	// CodeAddressTaken is the code of creations with an address that is not free.
	CodeAddressTaken  = "address-taken"
	CodeProtected     = "protected"
	CodeQuotaExceeded = "quota-exceeded"
	CodeRateLimited   = "rate-limited"
	CodeInvalid       = "invalid"
	CodeUnsupported   = "unsupported"
	CodeCapacity      = "capacity"
	CodeUnavailable   = "unavailable"
	// CodeEdgeFault is the code of jobs that edges could not apply, or have not in time.
	CodeEdgeFault            = "edge-fault"
	CodeInternal             = "internal"
	CodePageTokenExpired     = "page-token-expired" //nolint:gosec // no secret: it is about pages
	CodeIdempotencyKeyReused = "idempotency-key-reused"
)

// Problem is an RFC 9457 problem document with the cloud's stable code.
type Problem struct {
	// Always about:blank; code tells problems apart.
	Type string `json:"type" example:"about:blank"`
	// The text of the HTTP status.
	Title string `json:"title" example:"Conflict"`
	// The HTTP status.
	Status int `json:"status" example:"409"`
	// What happened, for human readers.
	Detail string `json:"detail,omitempty"`
	// The path of the request.
	Instance string `json:"instance,omitempty"`
	// Stable, for programs. Clients must tolerate unknown codes.
	Code string `json:"code" example:"name-taken"`
	// Identifies the request in the cloud's logs.
	RequestID string `json:"request_id,omitempty"`
	// True if the same request may succeed later.
	Retryable bool `json:"retryable"`
	// All invalid fields.
	Errors []ProblemField `json:"errors,omitempty" nullable:"false"`
	// The object that caused the problem, such as the holder of a name that is taken.
	Resource *Reference `json:"resource,omitempty"`
}

// Summary returns code, detail and fields in one line: what does not differ between requests.
func (p *Problem) Summary() string {
	text := p.Code
	if p.Detail != "" {
		text += ": " + p.Detail
	}
	var fields []string
	for _, f := range p.Errors {
		fields = append(fields, f.Pointer+": "+f.Detail)
	}
	if len(fields) > 0 {
		text += ": " + strings.Join(fields, "; ")
	}
	return text
}

// ProblemField describes what is wrong with one field of a request.
type ProblemField struct {
	// An RFC 6901 pointer into the body, or a parameter such as query/limit.
	Pointer string `json:"pointer" example:"/listeners/0/port"`
	// Stable, for programs.
	Code string `json:"code" example:"invalid"`
	// What is wrong, for human readers.
	Detail string `json:"detail"`
}
