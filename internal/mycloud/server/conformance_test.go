package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/internal/mycloud/server/api"
)

// conformance checks every exchange of a test against the OpenAPI document.
type conformance struct {
	*document
	t *testing.T

	mu   sync.Mutex
	seen map[string]bool
}

// document is the OpenAPI document, whose schemas are JSON Schema 2020-12. All tests share it.
type document struct {
	operations []documented
	// responses are those that operations share, by name.
	responses map[string]any

	// mu guards compiler.
	mu       sync.Mutex
	compiler *jsonschema.Compiler
}

// documented describes an operation of the document.
type documented struct {
	id, method string
	path       *regexp.Regexp
	at         string
	def        map[string]any
}

const documentURL = "https://mycloud.test/openapi.json"

// published returns the document. To read it takes longer than most tests.
var published = sync.OnceValues(func() (*document, error) {
	raw, err := api.Document()
	if err != nil {
		return nil, err
	}
	asJSON, err := yaml.YAMLToJSON(raw)
	if err != nil {
		return nil, err
	}
	content, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		return nil, err
	}
	doc := &document{compiler: jsonschema.NewCompiler()}
	doc.compiler.DefaultDraft(jsonschema.Draft2020)
	if err := doc.compiler.AddResource(documentURL, content); err != nil {
		return nil, err
	}
	doc.responses = content.(map[string]any)["components"].(map[string]any)["responses"].(map[string]any)
	for path, item := range content.(map[string]any)["paths"].(map[string]any) {
		pattern := regexp.MustCompile(`\\\{[^}]*\\\}`).ReplaceAllString(regexp.QuoteMeta(path), `[^/:]+`)
		for method, def := range item.(map[string]any) {
			d := def.(map[string]any)
			doc.operations = append(doc.operations, documented{
				id: d["operationId"].(string), method: strings.ToUpper(method), path: regexp.MustCompile("^" + pattern + "$"),
				at: "#/paths/" + escape(path) + "/" + method, def: d,
			})
		}
	}
	return doc, nil
})

func newConformance(t *testing.T) *conformance {
	t.Helper()
	doc, err := published()
	if err != nil {
		t.Fatal(err)
	}
	return &conformance{document: doc, t: t, seen: map[string]bool{}}
}

func escape(s string) string {
	s = strings.NewReplacer("~", "~0", "/", "~1").Replace(s)
	return strings.NewReplacer("{", "%7B", "}", "%7D").Replace(s)
}

// RoundTrip sends a request and checks it and its response.
func (c *conformance) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent []byte
	if r.Body != nil {
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(got))
	if err != nil {
		return nil, err
	}
	if err := c.exchange(r, sent, resp, got); err != nil {
		c.t.Errorf(
			"%s %s: %d does not conform to the document: %v\nsent %s\ngot %s", r.Method, r.URL, resp.StatusCode, err, sent, got,
		)
	}
	return resp, nil
}

func (c *conformance) exchange(r *http.Request, sent []byte, resp *http.Response, got []byte) error {
	if resp.Header.Get("Request-Id") == "" {
		return fmt.Errorf("no Request-Id")
	}
	op := c.find(r)
	if op == nil {
		if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusMethodNotAllowed &&
			resp.StatusCode != http.StatusUnauthorized {
			return fmt.Errorf("the operation is not documented")
		}
		return c.validate("#/components/schemas/Problem", got)
	}
	success := resp.StatusCode < 400
	if success {
		c.mu.Lock()
		c.seen[op.id] = true
		c.mu.Unlock()
	}
	if err := op.parameters(r, success); err != nil {
		return err
	}
	if resp.StatusCode == http.StatusPreconditionRequired && !op.param("header", "If-Match", "required") {
		return fmt.Errorf("it demands If-Match, which the document does not")
	}
	if success && len(sent) > 0 {
		body, ok := op.def["requestBody"].(map[string]any)
		if !ok {
			return fmt.Errorf("request: the operation takes no body")
		}
		content := body["content"].(map[string]any)
		if sentAs := r.Header.Get("Content-Type"); content[sentAs] == nil {
			return fmt.Errorf("request: content type %s is not documented", sentAs)
		}
		for mediaType := range content {
			if err := c.validate(op.at+"/requestBody/content/"+escape(mediaType)+"/schema", sent); err != nil {
				return fmt.Errorf("request: %w", err)
			}
		}
	}
	return c.response(op, resp, got)
}

func (d *document) response(op *documented, resp *http.Response, got []byte) error {
	status := strconv.Itoa(resp.StatusCode)
	responses := op.def["responses"].(map[string]any)
	def, ok := responses[status].(map[string]any)
	if !ok && resp.StatusCode < 500 {
		return fmt.Errorf("the status is not documented")
	}
	at := op.at + "/responses/" + status
	if !ok {
		def = responses["default"].(map[string]any)
	}
	if ref, shared := def["$ref"].(string); shared {
		at, def = ref, d.responses[ref[strings.LastIndex(ref, "/")+1:]].(map[string]any)
	}
	content, _ := def["content"].(map[string]any)
	if len(content) == 0 {
		if len(got) > 0 {
			return fmt.Errorf("the document knows of no body")
		}
		return nil
	}
	mediaType := resp.Header.Get("Content-Type")
	if plain, text := strings.CutSuffix(mediaType, "; charset=utf-8"); text && content[plain] != nil {
		return nil
	}
	if content[mediaType] == nil {
		return fmt.Errorf("content type %q is not documented", mediaType)
	}
	return d.validate(at+"/content/"+escape(mediaType)+"/schema", got)
}

// parameters checks that a successful request used only documented parameters.
func (d *documented) parameters(r *http.Request, success bool) error {
	if !success {
		return nil
	}
	for q := range r.URL.Query() {
		if !d.param("query", q, "name") {
			return fmt.Errorf("query parameter %s is not documented", q)
		}
	}
	for _, h := range []string{"If-Match", "If-None-Match", "Mycloud-If-Tags", "Idempotency-Key", "Mycloud-Fence"} {
		if r.Header.Get(h) != "" && !d.param("header", h, "name") {
			return fmt.Errorf("header %s is not documented", h)
		}
		if r.Header.Get(h) == "" && d.param("header", h, "required") {
			return fmt.Errorf("header %s is documented as required", h)
		}
	}
	return nil
}

// param reports whether the document has a parameter.
func (d *documented) param(in, name, what string) bool {
	params, _ := d.def["parameters"].([]any)
	for _, p := range params {
		m := p.(map[string]any)
		if m["in"] == in && strings.EqualFold(m["name"].(string), name) {
			return m[what] != nil && m[what] != false
		}
	}
	return false
}

func (d *document) find(r *http.Request) *documented {
	for i, op := range d.operations {
		if op.method == r.Method && op.path.MatchString(r.URL.Path) {
			return &d.operations[i]
		}
	}
	return nil
}

func (d *document) validate(at string, raw []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	schema, err := d.compiler.Compile(documentURL + at)
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	return schema.Validate(v)
}

// unseen returns the operations that no request has used successfully.
func (c *conformance) unseen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []string
	for _, op := range c.operations {
		if !c.seen[op.id] {
			ids = append(ids, op.id)
		}
	}
	return ids
}

// TestDocumentedConditions checks rules of the document that no single exchange can show.
func TestDocumentedConditions(t *testing.T) {
	c := newConformance(t)
	var demanding []string
	for _, op := range c.operations {
		conditional := op.param("header", "If-None-Match", "name")
		if _, answers := op.def["responses"].(map[string]any)["304"]; answers != conditional {
			t.Errorf("%s: takes If-None-Match %t, answers 304 %t", op.id, conditional, answers)
		}
		if op.param("header", "If-Match", "required") {
			demanding = append(demanding, op.id)
		}
	}
	slices.Sort(demanding)
	diff(t, "operations that demand If-Match", []string{
		"adopt-load-balancer", "delete-cluster-holder", "delete-load-balancer", "delete-node-group", "patch-load-balancer", "patch-members",
		"update-load-balancer", "update-node-group",
	}, demanding)
}

// TestConformanceCanFail checks that the conformance check finds violations.
func TestConformanceCanFail(t *testing.T) {
	c := newConformance(t)
	valid := map[string]any{
		"type": "about:blank", "title": "Conflict", "status": 409, "code": "conflict", "retryable": false,
	}
	broken := map[string]func(m map[string]any){
		"missing field": func(m map[string]any) { delete(m, "code") },
		"wrong type":    func(m map[string]any) { m["status"] = "409" },
	}
	raw := func(m map[string]any) []byte {
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if err := c.validate("#/components/schemas/Problem", raw(valid)); err != nil {
		t.Error(err)
	}
	for name, breakIt := range broken {
		m := maps.Clone(valid)
		breakIt(m)
		if c.validate("#/components/schemas/Problem", raw(m)) == nil {
			t.Errorf("%s passes", name)
		}
	}
	if len(c.operations) < 30 {
		t.Errorf("only %d operations found in the document", len(c.operations))
	}
}
