package operation

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/store"
)

// translator converts errors to problems.
type translator struct {
	store  store.Store
	logger *slog.Logger
}

// complete converts every error, including the library's, to a problem.
func (t *translator) complete(ctx huma.Context, _ string, v any) (any, error) {
	var p cloudv1.Problem
	switch e := v.(type) {
	case *failure.Error:
		p = e.Problem()
	case *huma.ErrorModel:
		p = t.translate(ctx, e)
	default:
		return v, nil
	}
	u := ctx.URL()
	return failure.Complete(p, u.Path, ctx.Header(cloudv1.HeaderRequestID)), nil
}

// translate converts an error of the library: of a request that does not match its schema, or of a handler that failed
// unexpectedly.
func (t *translator) translate(ctx huma.Context, e *huma.ErrorModel) cloudv1.Problem {
	if e.Status >= http.StatusInternalServerError {
		t.logUnexpected(ctx, e.Errors)
		p := failure.Internal().Problem()
		p.Status, p.Retryable = e.Status, true
		return p
	}
	p := cloudv1.Problem{Status: e.Status, Detail: e.Detail, Code: cloudv1.CodeInvalid}
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
	all, err := addNoted(ctx.Context(), t.store, all)
	if err != nil {
		t.logUnexpected(ctx, err)
	}
	return failure.Invalid(all).Problem()
}

func (t *translator) logUnexpected(ctx huma.Context, err any) {
	t.logger.ErrorContext(ctx.Context(), "Could not answer", "method", ctx.Method(), "path", ctx.URL().Path,
		"requestID", ctx.Header(cloudv1.HeaderRequestID), "error", err)
}

// problemField converts the library's error of one field. One of our own checks already has the right form, see failure.Fields.
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
