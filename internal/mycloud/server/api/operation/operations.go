// Package operation registers the operations of the API with their documentation, leads requests to them, and translates
// the errors of the library into problems.
package operation

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/access"
	"quaymaster.dev/internal/mycloud/server/api/audit"
	"quaymaster.dev/internal/mycloud/server/api/describe"
	"quaymaster.dev/internal/mycloud/server/store"
)

// SchemaPrefix begins references to schemas.
const SchemaPrefix = "#/components/schemas/"

// NewAPI returns an API without operations. Its document has info, servers and tags.
func NewAPI(s store.Store, l *slog.Logger, info *huma.Info, servers []*huma.Server, tags []*huma.Tag) huma.API {
	t := &translator{store: s, logger: l}
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    info,
			Servers: servers,
			Tags:    tags,
			Components: &huma.Components{
				Schemas:         huma.NewMapRegistry(SchemaPrefix, huma.DefaultSchemaNamer),
				SecuritySchemes: access.Schemes(),
			},
		},
		Formats:       map[string]huma.Format{cloudv1.MediaTypeJSON: jsonFormat(), "json": jsonFormat()},
		DefaultFormat: cloudv1.MediaTypeJSON,
		Transformers:  []huma.Transformer{t.complete},
	}
	// Clients newer than the server may send fields that it does not know.
	config.AllowAdditionalPropertiesByDefault = true
	describe.Problems(config.Components)
	return huma.NewAPI(config, newRouter())
}

// Found is the response to a read of an object or a list, with its ETag.
type Found[T any] struct {
	ETag string `header:"ETag" doc:"The revision of the object or the list."`
	Body T
}

// Plain is a response without ETag.
type Plain[T any] struct{ Body T }

// Answer is the response to a write.
type Answer[T any] struct {
	Status   int
	ETag     string `header:"ETag" doc:"The new revision of the object."`
	Location string `header:"Location" doc:"The path of the job in which the write continues."`
	Replayed string `header:"Idempotency-Replayed" doc:"true if the response repeats an earlier one for the same Idempotency-Key."`
	Body     T
}

// Operation describes an operation in the document.
type Operation struct{ id, tag, summary string }

// New returns the operation with an id, in the group of a tag.
func New(id, tag, summary string) Operation { return Operation{id, tag, summary} }

// Read adds a GET. The edits complete its description in the document.
func Read[I, O any](api huma.API, o Operation, path string, handler func(context.Context, *I) (*O, error),
	edits ...func(*huma.Operation),
) {
	op := o.at(http.MethodGet, path)
	register(api, op, handler, edits)
}

// Question adds a POST that changes nothing that is stored. The edits complete its description in the document.
func Question[I, O any](api huma.API, o Operation, path string, handler func(context.Context, *I) (*O, error),
	edits ...func(*huma.Operation),
) {
	op := o.at(http.MethodPost, path)
	describe.Body(&op)
	register(api, op, handler, edits)
}

// Write adds an operation that changes something. It responds with one of the statuses, of which the first is
// the usual one. The edits complete its description in the document.
func Write[I, T any](api huma.API, o Operation, method, path string, statuses []int,
	handler func(context.Context, *I) (*Answer[T], error), edits ...func(*huma.Operation),
) {
	op := o.at(method, path)
	op.DefaultStatus = statuses[0]
	describe.Refuses(http.StatusConflict)(&op)
	// The library takes the body of a request from the field with this name.
	if _, has := reflect.TypeFor[I]().FieldByName("Body"); has {
		describe.Body(&op)
	}
	for _, s := range statuses {
		op.Responses[strconv.Itoa(s)] = response(api, s, reflect.TypeFor[T]())
	}
	register(api, op, func(ctx context.Context, in *I) (*Answer[T], error) {
		if p, ok := any(in).(interface{ Rehearses() bool }); ok && p.Rehearses() {
			audit.NoteDryRun(ctx)
		}
		// The body may have arrived after the token was revoked.
		if _, err := access.Remaining(ctx); err != nil {
			return nil, err
		}
		answer, err := handler(ctx, in)
		if err != nil {
			return nil, err
		}
		if written, ok := any(&answer.Body).(interface{ Metadata() *cloudv1.Object }); ok {
			audit.Note(ctx, written.Metadata().ID, written.Metadata().Revision)
		}
		return answer, nil
	}, edits)
}

// at returns the operation of a method on a path.
func (o Operation) at(method, path string) huma.Operation {
	return huma.Operation{
		OperationID: o.id, Method: method, Path: path, Summary: o.summary, Tags: []string{o.tag},
		Responses: map[string]*huma.Response{},
	}
}

// register adds an operation after the edits of its description.
func register[I, O any](api huma.API, op huma.Operation, handler func(context.Context, *I) (*O, error),
	edits []func(*huma.Operation),
) {
	access.Permit(&op)
	for _, edit := range edits {
		edit(&op)
	}
	describe.Failures(&op)
	huma.Register(api, op, handler)
}

func response(api huma.API, status int, body reflect.Type) *huma.Response {
	r := &huma.Response{
		Description: "The write is complete.",
		Content: map[string]*huma.MediaType{cloudv1.MediaTypeJSON: {
			Schema: api.OpenAPI().Components.Schemas.Schema(body, true, ""),
		}},
	}
	if status == http.StatusAccepted {
		r.Description = "The write continues in the job named by Location."
	}
	return r
}
