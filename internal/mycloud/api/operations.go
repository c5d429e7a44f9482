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
	op := o.at(http.MethodGet, path)
	permit(roleClient, roleEdge)(&op)
	register(a, op, handler, edits)
}

// registerQuestion adds a POST that changes nothing that is stored. The edits complete its description in the document.
func registerQuestion[I, O any](a *API, o operation, path string, handler func(context.Context, *I) (*O, error),
	edits ...func(*huma.Operation),
) {
	op := o.at(http.MethodPost, path)
	permit(roleClient, roleEdge)(&op)
	takesBody(&op)
	register(a, op, handler, edits)
}

// registerWrite adds an operation that changes something. It responds with one of the statuses, of which the first is
// the usual one. The edits complete its description in the document.
func registerWrite[I, T any](a *API, o operation, method, path string, statuses []int,
	handler func(context.Context, *I) (*Answer[T], error), edits ...func(*huma.Operation),
) {
	op := o.at(method, path)
	permit(roleClient)(&op)
	op.DefaultStatus = statuses[0]
	refuses(http.StatusConflict)(&op)
	// The library takes the body of a request from the field with this name.
	if _, has := reflect.TypeFor[I]().FieldByName("Body"); has {
		takesBody(&op)
	}
	for _, s := range statuses {
		op.Responses[strconv.Itoa(s)] = a.response(s, reflect.TypeFor[T]())
	}
	register(a, op, handler, edits)
}

// demandsRevision documents that a write requires If-Match. With a struct tag instead, the library would respond with
// 422 where the API responds with 428.
func demandsRevision(op *huma.Operation) {
	op.Parameters = append(op.Parameters, &huma.Param{
		Name: "If-Match", In: "header", Required: true, Schema: &huma.Schema{Type: huma.TypeString},
		Description: "The revision that the object must have. Without it, the response is 428.",
	})
	refuses(http.StatusPreconditionRequired)(op)
}

// at returns the operation of a method on a path.
func (o operation) at(method, path string) huma.Operation {
	return huma.Operation{
		OperationID: o.id, Method: method, Path: path, Summary: o.summary, Tags: []string{o.tag},
		Responses: map[string]*huma.Response{},
	}
}

// register adds an operation after the edits of its description.
func register[I, O any](a *API, op huma.Operation, handler func(context.Context, *I) (*O, error),
	edits []func(*huma.Operation),
) {
	for _, edit := range edits {
		edit(&op)
	}
	fails(&op)
	huma.Register(a.huma, op, handler)
}

func (a *API) response(status int, body reflect.Type) *huma.Response {
	r := &huma.Response{
		Description: "The write is complete.",
		Content: map[string]*huma.MediaType{cloudv1.MediaTypeJSON: {
			Schema: a.huma.OpenAPI().Components.Schemas.Schema(body, true, ""),
		}},
	}
	if status == http.StatusAccepted {
		r.Description = "The write continues in the job named by Location."
	}
	return r
}
