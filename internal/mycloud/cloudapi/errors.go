package cloudapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// ErrNotModified is returned by a conditional read if the caller's revision is still current.
var ErrNotModified = errors.New("not modified")

// Error is a response of the cloud other than success.
type Error struct {
	Method, Path string
	// Status is the HTTP status.
	Status int
	// Problem is nil if the response is not of the API, but of a proxy, for example. Then nothing may be concluded from
	// it.
	Problem *cloudv1.Problem
	// RetryAfter is how long the cloud asks to wait, or 0.
	RetryAfter time.Duration
	// RequestID identifies the request in the cloud's logs.
	RequestID string
}

// Error returns what failed in one line, with the id of the request.
func (e *Error) Error() string {
	if e.RequestID == "" {
		return e.Summary()
	}
	return fmt.Sprintf("%s (request %s)", e.Summary(), e.RequestID)
}

// Summary returns method, path, status, code and detail in one line. It is the same for every attempt, as Events and
// conditions need it.
func (e *Error) Summary() string {
	what := http.StatusText(e.Status) + ", without a problem document of the mycloud API"
	if e.Problem != nil {
		what = e.Problem.Summary()
	}
	return fmt.Sprintf("%s %s: %d %s", e.Method, e.Path, e.Status, what)
}

// IsNotFound reports whether the cloud itself answered that the object does not exist. No other 404 counts.
func IsNotFound(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusNotFound && HasCode(err, cloudv1.CodeResourceNotFound)
}

// IsAbsent reports whether the cloud itself answered that the object does not exist, or no longer exists.
func IsAbsent(err error) bool { return IsNotFound(err) || HasCode(err, cloudv1.CodeResourceGone) }

// ProblemOf returns what the cloud itself says is wrong, or nil if err is not an answer of it.
func ProblemOf(err error) *cloudv1.Problem {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Problem
	}
	return nil
}

// HasCode reports whether err is a problem of the cloud with one of the codes.
func HasCode(err error, codes ...string) bool {
	p := ProblemOf(err)
	return p != nil && slices.Contains(codes, p.Code)
}

// ResourceID returns the id of the object that a problem of the cloud names, such as the holder of a name that is
// taken, or an empty string.
func ResourceID(err error) string {
	if p := ProblemOf(err); p != nil && p.Resource != nil {
		return p.Resource.ID
	}
	return ""
}

var errMalformed = errors.New("malformed response")

// malformed returns the error for a success whose content violates the API.
func malformed(r *request, what string) error { return fmt.Errorf("%s: %w: %s", r, errMalformed, what) }

func unauthorized(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusUnauthorized
}
