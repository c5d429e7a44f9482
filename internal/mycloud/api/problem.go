package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"quaymaster.dev/internal/mycloud/store"
	"quaymaster.dev/provider/cloudapi"
)

const problemType = "application/problem+json"

// failure is a problem on its way to the client.
type failure struct {
	problem cloudapi.Problem
	header  http.Header
}

var (
	_ huma.StatusError       = (*failure)(nil)
	_ huma.HeadersError      = (*failure)(nil)
	_ huma.ContentTypeFilter = (*failure)(nil)
)

func fail(status int, code, format string, args ...any) *failure {
	return &failure{
		problem: cloudapi.Problem{
			Status: status, Code: code, Detail: fmt.Sprintf(format, args...),
			Retryable: status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests,
		},
		header: http.Header{},
	}
}

// invalid is a request with fields at fault.
func invalid(fields []cloudapi.ProblemField) *failure {
	f := fail(http.StatusUnprocessableEntity, cloudapi.CodeInvalid, "%s", "the request is invalid")
	f.problem.Errors = fields
	return f
}

// invalidField is a request with one field at fault.
func invalidField(pointer, format string, args ...any) *failure {
	return invalid([]cloudapi.ProblemField{{Pointer: pointer, Code: cloudapi.CodeInvalid, Detail: fmt.Sprintf(format, args...)}})
}

// on names the object that stands in the way; one about to be created has no id and is not named.
func (f *failure) on(kind, id string) *failure {
	if id != "" {
		f.problem.Resource = &cloudapi.Reference{Kind: kind, ID: id}
	}
	return f
}

// retryAfter says when the same request may succeed.
func (f *failure) retryAfter(d time.Duration) *failure {
	f.problem.Retryable = true
	f.header.Set("Retry-After", strconv.Itoa(int(d/time.Second)))
	return f
}

// Error is the problem's code and detail.
func (f *failure) Error() string { return f.problem.Code + ": " + f.problem.Detail }

// GetStatus is the HTTP status.
func (f *failure) GetStatus() int { return f.problem.Status }

// GetHeaders are the problem's headers.
func (f *failure) GetHeaders() http.Header { return f.header }

// ContentType makes JSON a problem document.
func (f *failure) ContentType(string) string { return problemType }

// absent turns the store's word that there is no such object into the API's.
func absent(err error) error {
	if none, ok := errors.AsType[*store.NotFoundError](err); ok {
		return fail(http.StatusNotFound, cloudapi.CodeResourceNotFound, "%s", none).on(none.Kind, none.ID)
	}
	return err
}

// completeProblem gives every error, the library's own too, the form of the API.
func (a *API) completeProblem(ctx huma.Context, _ string, v any) (any, error) {
	var p cloudapi.Problem
	switch e := v.(type) {
	case *failure:
		p = e.problem
	case *huma.ErrorModel:
		p = a.translate(ctx, e)
	default:
		return v, nil
	}
	u := ctx.URL()
	return complete(p, u.Path, ctx.Header(requestIDHeader)), nil
}

func complete(p cloudapi.Problem, path, requestID string) cloudapi.Problem {
	p.Type, p.Title = "about:blank", http.StatusText(p.Status)
	p.Instance = strings.Replace(path, "/:", ":", 1)
	p.RequestID = requestID
	return p
}

// translate reads an error of the library: of a request that does not fit its schema, or of a handler that met the
// unexpected.
func (a *API) translate(ctx huma.Context, e *huma.ErrorModel) cloudapi.Problem {
	p := cloudapi.Problem{Status: e.Status, Detail: e.Detail, Code: cloudapi.CodeInvalid}
	if e.Status >= http.StatusInternalServerError {
		a.Logger.ErrorContext(ctx.Context(), "Could not answer", "method", ctx.Method(), "path", ctx.URL().Path,
			"requestID", ctx.Header(requestIDHeader), "error", e.Errors)
		p.Code, p.Detail, p.Retryable = cloudapi.CodeInternal, "the cloud failed; its logs tell why", true
		return p
	}
	if e.Status != http.StatusUnprocessableEntity {
		// The body could not be read at all: what else is said of its fields is said of nothing.
		if len(e.Errors) > 0 {
			p.Detail = e.Errors[0].Message
		}
		return p
	}
	p.Detail = "the request is invalid"
	for _, d := range e.Errors {
		p.Errors = append(p.Errors, cloudapi.ProblemField{Pointer: pointer(d.Location), Code: cloudapi.CodeInvalid, Detail: d.Message})
	}
	return p
}

// pointer turns a location such as body.listeners[0].port into /listeners/0/port, and query.limit into query/limit.
func pointer(location string) string {
	rest, inBody := strings.CutPrefix(location, "body")
	if !inBody {
		return strings.Replace(location, ".", "/", 1)
	}
	if before, tag, ok := strings.Cut(rest, ".tags."); ok {
		// A tag's key has dots of its own.
		return slashed(before) + "/tags/" + strings.ReplaceAll(strings.ReplaceAll(tag, "~", "~0"), "/", "~1")
	}
	return slashed(rest)
}

func slashed(path string) string {
	return strings.NewReplacer(".", "/", "[", "/", "]", "").Replace(path)
}

// fields are problems as the library wants them from a check of the body.
func fields(problems []cloudapi.ProblemField) []error {
	errs := make([]error, 0, len(problems))
	for _, p := range problems {
		errs = append(errs, &huma.ErrorDetail{Location: "body" + p.Pointer, Message: p.Detail})
	}
	return errs
}

// writeFailure answers outside of any operation.
func writeFailure(w http.ResponseWriter, r *http.Request, f *failure) {
	for k := range f.header {
		w.Header().Set(k, f.header.Get(k))
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(f.problem.Status)
	// The client may be gone; there is nobody else to tell.
	_ = json.NewEncoder(w).Encode(complete(f.problem, r.URL.Path, r.Header.Get(requestIDHeader)))
}
