package api

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
	"github.com/danielgtaylor/huma/v2/validation"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/store"
)

// internalError is the detail of problems with code internal.
const internalError = "internal error; see the server's log"

// failure is the error whose response is a problem.
type failure struct {
	problem cloudv1.Problem
	header  http.Header
}

var (
	_ huma.StatusError       = (*failure)(nil)
	_ huma.HeadersError      = (*failure)(nil)
	_ huma.ContentTypeFilter = (*failure)(nil)
)

func fail(status int, code, format string, args ...any) *failure {
	return &failure{
		problem: cloudv1.Problem{
			Status: status, Code: code, Detail: fmt.Sprintf(format, args...),
			Retryable: status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests,
		},
		header: http.Header{},
	}
}

// invalid returns the failure of a request with invalid fields. Its code is unsupported if that is the code of all
// fields.
func invalid(fields []cloudv1.ProblemField) *failure {
	f := fail(http.StatusUnprocessableEntity, cloudv1.CodeInvalid, "%s", "the request is invalid")
	other := slices.ContainsFunc(fields, func(p cloudv1.ProblemField) bool { return p.Code != cloudv1.CodeUnsupported })
	if len(fields) > 0 && !other {
		f.problem.Code, f.problem.Detail = cloudv1.CodeUnsupported, "the request is not supported"
	}
	f.problem.Errors = fields
	return f
}

// invalidField returns the failure of a request with one invalid field.
func invalidField(pointer, format string, args ...any) *failure {
	detail := fmt.Sprintf(format, args...)
	return invalid([]cloudv1.ProblemField{{Pointer: pointer, Code: cloudv1.CodeInvalid, Detail: detail}})
}

// on sets the object that caused the problem, unless it has no id because it was to be created.
func (f *failure) on(kind, id string) *failure {
	if id != "" {
		f.problem.Resource = &cloudv1.Reference{Kind: kind, ID: id}
	}
	return f
}

// retryAfter sets the time after which the same request may succeed.
func (f *failure) retryAfter(d time.Duration) *failure {
	f.problem.Retryable = true
	f.header.Set("Retry-After", strconv.Itoa(int(d/time.Second)))
	return f
}

// Error returns the problem's code and detail.
func (f *failure) Error() string { return f.problem.Code + ": " + f.problem.Detail }

// GetStatus returns the HTTP status.
func (f *failure) GetStatus() int { return f.problem.Status }

// GetHeaders returns the headers of the response.
func (f *failure) GetHeaders() http.Header { return f.header }

// ContentType returns the media type of problems.
func (f *failure) ContentType(string) string { return cloudv1.MediaTypeProblem }

// absent converts the store's error for an object that does not exist into a failure.
func absent(err error) error {
	if none, ok := errors.AsType[*store.NotFoundError](err); ok {
		return fail(http.StatusNotFound, cloudv1.CodeResourceNotFound, "%s", none).on(none.Kind, none.ID)
	}
	return err
}

// completeProblem converts every error, including the library's, to a problem.
func (a *API) completeProblem(ctx huma.Context, _ string, v any) (any, error) {
	var p cloudv1.Problem
	switch e := v.(type) {
	case *failure:
		p = e.problem
	case *huma.ErrorModel:
		p = a.translate(ctx, e)
	default:
		return v, nil
	}
	u := ctx.URL()
	return complete(p, u.Path, ctx.Header(cloudv1.HeaderRequestID)), nil
}

func complete(p cloudv1.Problem, path, requestID string) cloudv1.Problem {
	p.Type, p.Title = "about:blank", http.StatusText(p.Status)
	p.Instance = strings.Replace(path, "/:", ":", 1)
	p.RequestID = requestID
	return p
}

// translate converts an error of the library: of a request that does not match its schema, or of a handler that failed
// unexpectedly.
func (a *API) translate(ctx huma.Context, e *huma.ErrorModel) cloudv1.Problem {
	p := cloudv1.Problem{Status: e.Status, Detail: e.Detail, Code: cloudv1.CodeInvalid}
	if e.Status >= http.StatusInternalServerError {
		a.logUnexpected(ctx, e.Errors)
		p.Code, p.Detail, p.Retryable = cloudv1.CodeInternal, internalError, true
		return p
	}
	if e.Status != http.StatusUnprocessableEntity {
		// The body could not be read at all, so problems of its fields are meaningless.
		if len(e.Errors) > 0 {
			p.Detail = e.Errors[0].Message
		}
		return p
	}
	all := make([]cloudv1.ProblemField, 0, len(e.Errors))
	for _, d := range e.Errors {
		all = append(all, problemField(d))
	}
	all, err := a.addDangling(ctx.Context(), all)
	if err != nil {
		a.logUnexpected(ctx, err)
	}
	return invalid(all).problem
}

func (a *API) logUnexpected(ctx huma.Context, err any) {
	a.Logger.ErrorContext(ctx.Context(), "Could not answer", "method", ctx.Method(), "path", ctx.URL().Path,
		"requestID", ctx.Header(cloudv1.HeaderRequestID), "error", err)
}

// problemField converts the library's error of one field. One of our own checks already has the right form, see fields.
func problemField(d *huma.ErrorDetail) cloudv1.ProblemField {
	if f, ours := d.Value.(cloudv1.ProblemField); ours {
		return f
	}
	f := cloudv1.ProblemField{Pointer: pointer(d.Location), Code: cloudv1.CodeInvalid, Detail: d.Message}
	var missing string
	if n, _ := fmt.Sscanf(d.Message, validation.MsgExpectedRequiredProperty, &missing); n == 1 {
		// The library points at the object that lacks the field.
		f.Pointer += "/" + missing
	}
	return f
}

// fields converts problems to the form that the library expects from a validation of the body.
func fields(problems []cloudv1.ProblemField) []error {
	errs := make([]error, 0, len(problems))
	for _, p := range problems {
		if p.Code == "" {
			p.Code = cloudv1.CodeInvalid
		}
		errs = append(errs, &huma.ErrorDetail{Message: p.Detail, Value: p})
	}
	return errs
}

// writeFailure responds with a failure outside of any operation.
func writeFailure(w http.ResponseWriter, r *http.Request, f *failure) {
	for k := range f.header {
		w.Header().Set(k, f.header.Get(k))
	}
	w.Header().Set("Content-Type", cloudv1.MediaTypeProblem)
	w.WriteHeader(f.problem.Status)
	// This fails only if the client is gone.
	_ = json.NewEncoder(w).Encode(complete(f.problem, r.URL.Path, r.Header.Get(cloudv1.HeaderRequestID)))
}
