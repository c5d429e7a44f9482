// Package document completes the OpenAPI document of the API with the doc comments of its types.
package document

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"sigs.k8s.io/yaml"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/operation"
)

// YAML completes a document and returns it in YAML.
func YAML(doc *huma.OpenAPI) ([]byte, error) {
	c, err := readComments(cloudv1.Source)
	if err != nil {
		return nil, err
	}
	schemas := doc.Components.Schemas
	// The library adds its own error types to the document, but the API returns Problems.
	delete(schemas.Map(), "ErrorModel")
	delete(schemas.Map(), "ErrorDetail")
	for name, s := range schemas.Map() {
		c.describe(s, schemas.TypeFromRef(operation.SchemaPrefix+name))
	}
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete} {
			if op != nil {
				describeOperation(op, schemas, c)
			}
		}
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("encode the OpenAPI document: %w", err)
	}
	return yaml.JSONToYAML(raw)
}

// describeOperation completes the description of an operation, for reads with that of what they return.
func describeOperation(op *huma.Operation, schemas huma.Registry, c comments) {
	for _, p := range op.Parameters {
		// The library repeats the description of the parameter there.
		p.Schema.Description = ""
	}
	describeHeaders(op)
	if op.RequestBody != nil {
		for _, content := range op.RequestBody.Content {
			op.RequestBody.Description = c.of(schemas.TypeFromRef(content.Schema.Ref))
		}
	}
	answer := op.Responses["200"]
	if answer == nil || answer.Content[cloudv1.MediaTypeJSON] == nil {
		return
	}
	t := schemas.TypeFromRef(answer.Content[cloudv1.MediaTypeJSON].Schema.Ref)
	if answer.Description == http.StatusText(http.StatusOK) {
		answer.Description = c.of(t)
	}
	if op.Method != http.MethodGet {
		return
	}
	returns := "Returns one object."
	if items, list := t.FieldByName("Items"); list && typeName(t) == "List" {
		t, returns = items.Type.Elem(), "Returns a page of a snapshot of the collection."
	}
	if op.Description == "" {
		op.Description = returns
	}
	op.Description += " " + c.of(t)
}

// describeHeaders completes the headers, which the library adds to one response only and describes in their schemas.
func describeHeaders(op *huma.Operation) {
	usual := op.Responses[strconv.Itoa(op.DefaultStatus)]
	if usual == nil {
		return
	}
	headers := usual.Headers
	for _, h := range headers {
		h.Description, h.Schema.Description = h.Schema.Description, ""
	}
	for status, r := range op.Responses {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		r.Headers = maps.Clone(headers)
		if status != strconv.Itoa(http.StatusAccepted) {
			delete(r.Headers, "Location")
		}
	}
}
