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

// adapter supports paths with a verb after an id, such as {id}:stop, which patterns of the standard mux do not.
type adapter struct{ *http.ServeMux }

// Handle adds an operation to the mux.
func (a adapter) Handle(op *huma.Operation, handler func(huma.Context)) {
	pattern := op.Method + " " + strings.Replace(op.Path, "}:", "}/:", 1)
	a.HandleFunc(pattern, authorize(op, func(w http.ResponseWriter, r *http.Request) {
		handler(humago.NewContext(op, r.WithContext(withNotes(r.Context())), w))
	}))
}

// operation describes an operation in the document.
type operation struct{ id, tag, summary string }

// registerRead adds a GET. The edits complete its description in the document.
func registerRead[I, O any](a *API, o operation, path string, handler func(context.Context, *I) (*O, error),
	edits ...func(*huma.Operation),
) {
	op := a.describe(o, http.MethodGet, path)
	permit(roleClient, roleEdge)(&op)
	if _, conditional := reflect.TypeFor[I]().FieldByName("IfNoneMatch"); conditional {
		op.Responses["304"] = &huma.Response{Description: "The caller's revision is still current."}
	}
	for _, edit := range edits {
		edit(&op)
	}
	huma.Register(a.huma, op, handler)
}

// registerQuestion adds a POST that changes nothing that is stored. The edits complete its description in the document.
func registerQuestion[I, O any](a *API, o operation, path string, handler func(context.Context, *I) (*O, error),
	edits ...func(*huma.Operation),
) {
	op := a.describe(o, http.MethodPost, path)
	permit(roleClient, roleEdge)(&op)
	op.MaxBodyBytes = bodyMax
	for _, edit := range edits {
		edit(&op)
	}
	huma.Register(a.huma, op, handler)
}

// registerWrite adds an operation that changes something. It responds with one of the statuses, of which the first is
// the usual one. The edits complete its description in the document.
func registerWrite[I, T any](a *API, o operation, method, path string, statuses []int,
	handler func(context.Context, *I) (*Answer[T], error), edits ...func(*huma.Operation),
) {
	op := a.describe(o, method, path)
	permit(roleClient)(&op)
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

// demandsRevision documents that a write requires If-Match. With a struct tag instead, the library would respond with
// 422 where the API responds with 428.
func demandsRevision(op *huma.Operation) {
	op.Parameters = append(op.Parameters, &huma.Param{
		Name: "If-Match", In: "header", Required: true, Schema: &huma.Schema{Type: huma.TypeString},
		Description: "The revision that the object must have. Without it, the response is 428.",
	})
}

// describe returns an operation with the response that all have in common: a problem.
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
		r.Description = "The write continues in the job named by Location."
		r.Headers["Location"] = &huma.Param{Schema: text}
	}
	return r
}
