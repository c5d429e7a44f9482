package cloudapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// ErrNotModified answers a conditional read: what the caller knows is still so.
var ErrNotModified = errors.New("not modified")

// Error is an answer of the cloud that is no success.
type Error struct {
	Method, Path string
	// Status is the HTTP status.
	Status int
	// Problem is nil where the answer was none of the API's own: from a proxy, say. It is then no evidence of anything.
	Problem *cloudv1.Problem
	// RetryAfter is how long the cloud asks to wait; 0 where it does not.
	RetryAfter time.Duration
	// RequestID finds the request in the cloud's logs.
	RequestID string
}

// Error tells request, status, code and detail in one line.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %d", e.Method, e.Path, e.Status)
	if e.Problem == nil {
		fmt.Fprintf(&b, " %s, without a problem document of the mycloud API", http.StatusText(e.Status))
	} else {
		fmt.Fprintf(&b, " %s", e.Problem.Code)
		if e.Problem.Detail != "" {
			fmt.Fprintf(&b, ": %s", e.Problem.Detail)
		}
		for i, f := range e.Problem.Errors {
			sep := "; "
			if i == 0 {
				sep = ": "
			}
			fmt.Fprintf(&b, "%s%s: %s", sep, f.Pointer, f.Detail)
		}
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, " (request %s)", e.RequestID)
	}
	return b.String()
}

// IsNotFound tells whether the cloud itself says that there is no such object. No other 404 counts.
func IsNotFound(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusNotFound && HasCode(err, cloudv1.CodeResourceNotFound)
}

// IsAbsent tells whether the cloud itself says that the object it was asked for is not there, or not there any more.
func IsAbsent(err error) bool { return IsNotFound(err) || HasCode(err, cloudv1.CodeResourceGone) }

// HasCode tells whether err is an answer of the cloud with one of the codes.
func HasCode(err error, codes ...string) bool {
	var e *Error
	return errors.As(err, &e) && e.Problem != nil && slices.Contains(codes, e.Problem.Code)
}

// ResourceID is the id of the object that err, an answer of the cloud, speaks of, such as the holder of a name that is taken;
// empty if it names none.
func ResourceID(err error) string {
	var e *Error
	if !errors.As(err, &e) || e.Problem == nil || e.Problem.Resource == nil {
		return ""
	}
	return e.Problem.Resource.ID
}

var errMalformed = errors.New("malformed answer")

// malformed is a success whose content is not what the API promises.
func malformed(r *request, what string) error { return fmt.Errorf("%s: %w: %s", r, errMalformed, what) }

func unauthorized(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusUnauthorized
}
