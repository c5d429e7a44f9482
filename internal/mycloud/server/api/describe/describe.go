// Package describe completes the descriptions of operations in the API's document: what they respond with besides the
// object, what they take, and what they demand.
package describe

import (
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// problemMeanings returns what the statuses of problems mean.
func problemMeanings() map[int]string {
	return map[int]string{
		http.StatusBadRequest:            "The body is not valid JSON, or a header is malformed.",
		http.StatusUnauthorized:          "The bearer token is missing or wrong.",
		http.StatusForbidden:             "The operation requires a token with a different role, or a quota is exhausted.",
		http.StatusNotFound:              "The object does not exist.",
		http.StatusConflict:              "The request contradicts the present state, such as a name that is taken.",
		http.StatusGone:                  "What the request refers to is gone: the instance, the page or the changes after the revision.",
		http.StatusPreconditionFailed:    "The object has a different revision or different tags, the sender may no longer write, or it has seen a state that this cloud does not have.",
		http.StatusRequestTimeout:        "The body did not arrive in time.",
		http.StatusRequestEntityTooLarge: "The body is too large.",
		http.StatusUnsupportedMediaType:  "The content type of the body is not supported.",
		http.StatusUnprocessableEntity:   "The request is invalid. The problem names all invalid fields.",
		http.StatusPreconditionRequired:  "If-Match is required.",
		http.StatusTooManyRequests:       "Too many requests. Retry-After is the time in seconds to wait.",
		http.StatusInternalServerError:   "The cloud failed. The same request may succeed later.",
		http.StatusServiceUnavailable:    "The cloud cannot do this now. The same request may succeed later.",
	}
}

// Problems adds the responses that operations refer to.
func Problems(components *huma.Components) {
	components.Responses = map[string]*huma.Response{"Problem": problemResponse(components, "Any other problem.")}
	for status, meaning := range problemMeanings() {
		components.Responses[responseName(status)] = problemResponse(components, meaning)
	}
}

func problemResponse(components *huma.Components, meaning string) *huma.Response {
	schema := components.Schemas.Schema(reflect.TypeFor[cloudv1.Problem](), true, "")
	return &huma.Response{
		Description: meaning, Content: map[string]*huma.MediaType{cloudv1.MediaTypeProblem: {Schema: schema}},
	}
}

func responseName(status int) string { return strings.ReplaceAll(http.StatusText(status), " ", "") }

func responseRef(name string) *huma.Response {
	return &huma.Response{Ref: "#/components/responses/" + name}
}

// Answers documents the usual response of an operation.
func Answers(status int, meaning string) func(*huma.Operation) {
	return func(op *huma.Operation) { op.Responses[strconv.Itoa(status)] = &huma.Response{Description: meaning} }
}

// Refuses documents problems of an operation by their statuses.
func Refuses(statuses ...int) func(*huma.Operation) {
	return func(op *huma.Operation) {
		for _, s := range statuses {
			op.Responses[strconv.Itoa(s)] = responseRef(responseName(s))
		}
	}
}

// Conditional documents the response to a read whose caller already has the revision.
func Conditional(op *huma.Operation) {
	Answers(http.StatusNotModified, "The caller's revision is still current.")(op)
}

// Expires documents that what a read continues from, a page or a revision, may be gone.
func Expires(op *huma.Operation) { Refuses(http.StatusGone)(op) }

// Means describes an operation beyond its summary.
func Means(text string) func(*huma.Operation) {
	return func(op *huma.Operation) { op.Description = text }
}

// bodyMax limits the size of the bodies of requests.
const bodyMax = 8 << 20

// Body documents the problems of a body and limits its size.
func Body(op *huma.Operation) {
	op.MaxBodyBytes = bodyMax
	Refuses(http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)(op)
}

// Failures documents the problems that every operation can respond with.
func Failures(op *huma.Operation) {
	Refuses(
		http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusServiceUnavailable,
		// Every request may name a state that the cloud does not have.
		http.StatusBadRequest, http.StatusPreconditionFailed,
	)(op)
	if strings.Contains(op.Path, "{") {
		Refuses(http.StatusNotFound)(op)
	}
	op.Responses["default"] = responseRef("Problem")
}

// DemandsRevision documents that a write requires If-Match. With a struct tag instead, the library would respond with
// 422 where the API responds with 428.
func DemandsRevision(op *huma.Operation) {
	op.Parameters = append(op.Parameters, &huma.Param{
		Name: "If-Match", In: "header", Required: true, Schema: &huma.Schema{Type: huma.TypeString},
		Description: "The revision that the object must have. Without it, the response is 428.",
	})
	Refuses(http.StatusPreconditionRequired)(op)
}

// TakesMergePatch documents the content types of a patch.
func TakesMergePatch[T any](api huma.API) func(*huma.Operation) {
	return func(op *huma.Operation) {
		schemas := api.OpenAPI().Components.Schemas
		content := &huma.MediaType{Schema: schemas.Schema(reflect.TypeFor[T](), true, "")}
		op.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{
			cloudv1.MediaTypeMergePatch: content, cloudv1.MediaTypeJSON: content,
		}}
	}
}
