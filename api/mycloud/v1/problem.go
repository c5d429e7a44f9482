package v1

// The codes of problems. Unknown ones must be tolerated.
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
	CodeProtected            = "protected"
	CodeQuotaExceeded        = "quota-exceeded"
	CodeRateLimited          = "rate-limited"
	CodeInvalid              = "invalid"
	CodeUnsupported          = "unsupported"
	CodeCapacity             = "capacity"
	CodeUnavailable          = "unavailable"
	CodeInternal             = "internal"
	CodePageTokenExpired     = "page-token-expired" //nolint:gosec // no secret: it is about pages
	CodeIdempotencyKeyReused = "idempotency-key-reused"
)

// Problem is an RFC 9457 error with the cloud's stable code.
type Problem struct {
	Type      string         `json:"type" example:"about:blank"`
	Title     string         `json:"title" example:"Conflict"`
	Status    int            `json:"status" example:"409"`
	Detail    string         `json:"detail,omitempty" doc:"What happened, for people."`
	Instance  string         `json:"instance,omitempty" doc:"The path of the request."`
	Code      string         `json:"code" doc:"Stable, for programs. Unknown codes must be tolerated." example:"name-taken"`
	RequestID string         `json:"request_id,omitempty"`
	Retryable bool           `json:"retryable" doc:"True where the same request may succeed later."`
	Errors    []ProblemField `json:"errors,omitempty" nullable:"false" doc:"Every field at fault."`
	Resource  *Reference     `json:"resource,omitempty" doc:"The object that stands in the way."`
}

// ProblemField is what is wrong with one field of a request.
type ProblemField struct {
	// Pointer is an RFC 6901 pointer into the body, or names a parameter, such as query/limit.
	Pointer string `json:"pointer" example:"/listeners/0/port"`
	Code    string `json:"code" example:"invalid"`
	Detail  string `json:"detail"`
}
