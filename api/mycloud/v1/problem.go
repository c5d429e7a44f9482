package v1

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
	CodeProtected            = "protected"
	CodeQuotaExceeded        = "quota-exceeded"
	CodeRateLimited          = "rate-limited"
	CodeInvalid              = "invalid"
	CodeUnsupported          = "unsupported"
	CodeCapacity             = "capacity"
	CodeUnavailable          = "unavailable"
	// CodeEdgeFault is the code of jobs that edges could not apply, or have not in time.
	CodeEdgeFault            = "edge-fault"
	CodeInternal             = "internal"
	CodePageTokenExpired     = "page-token-expired" //nolint:gosec // no secret: it is about pages
	CodeIdempotencyKeyReused = "idempotency-key-reused"
)

// Problem is an RFC 9457 problem document with the cloud's stable code.
type Problem struct {
	Type      string         `json:"type" example:"about:blank"`
	Title     string         `json:"title" example:"Conflict"`
	Status    int            `json:"status" example:"409"`
	Detail    string         `json:"detail,omitempty" doc:"What happened, for human readers."`
	Instance  string         `json:"instance,omitempty" doc:"The path of the request."`
	Code      string         `json:"code" doc:"Stable, for programs. Clients must tolerate unknown codes." example:"name-taken"`
	RequestID string         `json:"request_id,omitempty"`
	Retryable bool           `json:"retryable" doc:"True if the same request may succeed later."`
	Errors    []ProblemField `json:"errors,omitempty" nullable:"false" doc:"All invalid fields."`
	Resource  *Reference     `json:"resource,omitempty" doc:"The object that caused the problem, such as the holder of a name that is taken."`
}

// ProblemField describes what is wrong with one field of a request.
type ProblemField struct {
	// Pointer is an RFC 6901 pointer into the body, or names a parameter, such as query/limit.
	Pointer string `json:"pointer" doc:"An RFC 6901 pointer into the body, or a parameter such as query/limit." example:"/listeners/0/port"`
	Code    string `json:"code" example:"invalid"`
	Detail  string `json:"detail"`
}
