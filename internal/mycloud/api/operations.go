package api

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// adapter lets paths have a verb after an id, such as {id}:stop, which patterns of the standard mux cannot.
type adapter struct{ *http.ServeMux }

// Handle adds an operation to the mux.
func (a adapter) Handle(op *huma.Operation, handler func(huma.Context)) {
	pattern := op.Method + " " + strings.Replace(op.Path, "}:", "}/:", 1)
	a.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		handler(humago.NewContext(op, r.WithContext(withNotes(r.Context())), w))
	})
}

// operation names an operation in the document.
type operation struct{ id, tag, summary string }

// registerRead adds a GET.
func registerRead[I, O any](a *API, o operation, path string, handler func(context.Context, *I) (*O, error)) {
	op := a.describe(o, http.MethodGet, path)
	if _, conditional := reflect.TypeFor[I]().FieldByName("IfNoneMatch"); conditional {
		op.Responses["304"] = &huma.Response{Description: "What the caller knows is still so."}
	}
	huma.Register(a.huma, op, handler)
}

// registerQuestion adds a POST that changes nothing.
func registerQuestion[I, O any](a *API, o operation, path string, handler func(context.Context, *I) (*O, error)) {
	op := a.describe(o, http.MethodPost, path)
	op.MaxBodyBytes = bodyMax
	huma.Register(a.huma, op, handler)
}

// registerWrite adds an operation that changes something. It answers with one of the statuses, the usual one first. The
// edits complete what the document says of it.
func registerWrite[I, T any](a *API, o operation, method, path string, statuses []int,
	handler func(context.Context, *I) (*Answer[T], error), edits ...func(*huma.Operation),
) {
	op := a.describe(o, method, path)
	op.DefaultStatus = statuses[0]
	op.MaxBodyBytes = bodyMax
	for _, s := range statuses {
		op.Responses[strconv.Itoa(s)] = a.response(s, reflect.TypeFor[T]())
	}
	for _, edit := range edits {
		edit(&op)
	}
	huma.Register(a.huma, op, handler)
}

// demandsRevision documents that a write needs If-Match. A tag of the parameter would say so too, but then the library
// answers 422 where the API answers 428.
func demandsRevision(op *huma.Operation) {
	op.Parameters = append(op.Parameters, &huma.Param{
		Name: "If-Match", In: "header", Required: true, Schema: &huma.Schema{Type: huma.TypeString},
		Description: "The revision that the object must have; the answer is 428 without it.",
	})
}

// describe gives an operation with the answer that all have: a problem.
func (a *API) describe(o operation, method, path string) huma.Operation {
	problem := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[cloudv1.Problem](), true, "")
	return huma.Operation{
		OperationID: o.id, Method: method, Path: path, Summary: o.summary, Tags: []string{o.tag},
		Responses: map[string]*huma.Response{"default": {
			Description: "A problem.",
			Content:     map[string]*huma.MediaType{cloudv1.MediaTypeProblem: {Schema: problem}},
		}},
	}
}

func (a *API) response(status int, body reflect.Type) *huma.Response {
	text := &huma.Schema{Type: huma.TypeString}
	r := &huma.Response{
		Description: http.StatusText(status),
		Headers:     map[string]*huma.Param{"ETag": {Schema: text}, cloudv1.HeaderIdempotencyReplayed: {Schema: text}},
		Content: map[string]*huma.MediaType{cloudv1.MediaTypeJSON: {
			Schema: a.huma.OpenAPI().Components.Schemas.Schema(body, true, ""),
		}},
	}
	if status == http.StatusAccepted {
		r.Description = "The job named by Location goes on."
		r.Headers["Location"] = &huma.Param{Schema: text}
	}
	return r
}
