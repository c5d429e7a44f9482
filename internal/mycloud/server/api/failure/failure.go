// Package failure holds the errors of the API whose responses are problems.
package failure

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/store"
)

// Error is the error whose response is a problem.
type Error struct {
	problem cloudv1.Problem
	header  http.Header
}

var (
	_ huma.StatusError       = (*Error)(nil)
	_ huma.HeadersError      = (*Error)(nil)
	_ huma.ContentTypeFilter = (*Error)(nil)
)

// New returns a failure with a status, one of the codes of problems and a detail.
func New(status int, code, format string, args ...any) *Error {
	return &Error{
		problem: cloudv1.Problem{
			Status: status, Code: code, Detail: fmt.Sprintf(format, args...),
			Retryable: status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests,
		},
		header: http.Header{},
	}
}

// Internal returns the failure of a request that failed unexpectedly. The cause is only in the log.
func Internal() *Error {
	return New(http.StatusInternalServerError, cloudv1.CodeInternal, "internal error; see the server's log")
}

// Invalid returns the failure of a request with invalid fields. Its code is unsupported if that is the code of all
// fields.
func Invalid(fields []cloudv1.ProblemField) *Error {
	f := New(http.StatusUnprocessableEntity, cloudv1.CodeInvalid, "%s", "the request is invalid")
	other := slices.ContainsFunc(fields, func(p cloudv1.ProblemField) bool { return p.Code != cloudv1.CodeUnsupported })
	if len(fields) > 0 && !other {
		f.problem.Code, f.problem.Detail = cloudv1.CodeUnsupported, "the request is not supported"
	}
	f.problem.Errors = fields
	return f
}

// InvalidField returns the failure of a request with one invalid field.
func InvalidField(pointer, format string, args ...any) *Error {
	detail := fmt.Sprintf(format, args...)
	return Invalid([]cloudv1.ProblemField{{Pointer: pointer, Code: cloudv1.CodeInvalid, Detail: detail}})
}

// Absent converts the store's error for an object that does not exist into a failure.
func Absent(err error) error {
	if none, ok := errors.AsType[*store.NotFoundError](err); ok {
		return New(http.StatusNotFound, cloudv1.CodeResourceNotFound, "%s", none).On(none.Kind, none.ID)
	}
	return err
}

// Unavailable converts the store's error for a state that cannot be reached into a failure.
func Unavailable(err error) error {
	if errors.Is(err, store.ErrUnavailable) {
		return New(http.StatusServiceUnavailable, cloudv1.CodeUnavailable, "%s", err).RetryAfter(time.Second)
	}
	return err
}

// On sets the object that caused the problem, unless it has no id because it was to be created.
func (f *Error) On(kind, id string) *Error {
	if id != "" {
		f.problem.Resource = &cloudv1.Reference{Kind: kind, ID: id}
	}
	return f
}

// RetryAfter sets the time after which the same request may succeed.
func (f *Error) RetryAfter(d time.Duration) *Error {
	f.problem.Retryable = true
	return f.With("Retry-After", strconv.Itoa(int(d/time.Second)))
}

// With sets a header of the response.
func (f *Error) With(header, value string) *Error {
	f.header.Set(header, value)
	return f
}

// Problem returns the body of the response, without what depends on the request.
func (f *Error) Problem() cloudv1.Problem { return f.problem }

// Error returns the problem's code and detail.
func (f *Error) Error() string { return f.problem.Code + ": " + f.problem.Detail }

// GetStatus returns the HTTP status.
func (f *Error) GetStatus() int { return f.problem.Status }

// GetHeaders returns the headers of the response.
func (f *Error) GetHeaders() http.Header { return f.header }

// ContentType returns the media type of problems.
func (f *Error) ContentType(string) string { return cloudv1.MediaTypeProblem }

// Write responds with the failure outside of any operation.
func (f *Error) Write(w http.ResponseWriter, r *http.Request) {
	for k := range f.header {
		w.Header().Set(k, f.header.Get(k))
	}
	w.Header().Set("Content-Type", cloudv1.MediaTypeProblem)
	w.WriteHeader(f.problem.Status)
	// This fails only if the client is gone.
	_ = json.NewEncoder(w).Encode(Complete(f.problem, r.URL.Path, r.Header.Get(cloudv1.HeaderRequestID)))
}

// Complete adds to a problem what depends on its request.
func Complete(p cloudv1.Problem, path, requestID string) cloudv1.Problem {
	p.Type, p.Title = "about:blank", http.StatusText(p.Status)
	p.Instance = strings.Replace(path, "/:", ":", 1)
	p.RequestID = requestID
	return p
}

// OfOperation returns the problem of one operation of a batch; nil if the operation succeeded. An error that is no
// failure of the operation fails the whole batch: it is returned.
func OfOperation(err error) (*cloudv1.Problem, error) {
	f, failed := errors.AsType[*Error](Absent(err))
	if !failed {
		return nil, err
	}
	p := f.problem
	p.Type, p.Title = "about:blank", http.StatusText(p.Status)
	return &p, nil
}

// Fields converts problems to the form that the library expects from a validation of the body.
func Fields(problems []cloudv1.ProblemField) []error {
	errs := make([]error, 0, len(problems))
	for _, p := range problems {
		if p.Code == "" {
			p.Code = cloudv1.CodeInvalid
		}
		errs = append(errs, &huma.ErrorDetail{Message: p.Detail, Value: p})
	}
	return errs
}
