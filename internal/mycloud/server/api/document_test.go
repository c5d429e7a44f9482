package api

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/internal/mycloud/server/api/handler"
	"quaymaster.dev/internal/mycloud/server/api/operation"
	"quaymaster.dev/internal/mycloud/server/api/watch"
)

// object is an object of the document.
type object = map[string]any

// readDocument returns the document as clients read it.
func readDocument(t *testing.T) object {
	t.Helper()
	raw, err := Document()
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := yaml.YAMLToJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	return doc.(object)
}

// each calls fn for the objects in a list or map.
func each(v any, fn func(key string, o object)) {
	switch v := v.(type) {
	case object:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			fn(key, v[key].(object))
		}
	case []any:
		for i, o := range v {
			fn(strconv.Itoa(i), o.(object))
		}
	}
}

// eachOperation calls fn for all operations.
func eachOperation(doc object, fn func(method, path string, op object)) {
	each(doc["paths"], func(path string, item object) {
		each(item, func(method string, op object) { fn(strings.ToUpper(method), path, op) })
	})
}

// described reports an object that has no description which readers can use.
func described(t *testing.T, what string, o object) {
	t.Helper()
	if text, _ := o["description"].(string); text == "" || !strings.HasSuffix(text, ".") || strings.Contains(text, "  ") {
		t.Errorf("%s: description %q; must be sentences", what, text)
	}
}

func TestOperationsAreDescribed(t *testing.T) {
	doc := readDocument(t)
	declared, used, ids := map[string]bool{}, map[string]bool{}, map[string]bool{}
	each(doc["tags"], func(_ string, tag object) {
		described(t, "tag", tag)
		declared[tag["name"].(string)] = true
	})
	responses := doc["components"].(object)["responses"].(object)
	id := regexp.MustCompile(`^[a-z]+(-[a-z]+)+$`)
	eachOperation(doc, func(method, path string, op object) {
		name, _ := op["operationId"].(string)
		if ids[name] || !id.MatchString(name) {
			t.Errorf("%s %s: operationId %q; must be unique words", method, path, name)
		}
		ids[name] = true
		described(t, name, op)
		if summary, _ := op["summary"].(string); summary == "" || len(summary) > 60 || strings.HasSuffix(summary, ".") {
			t.Errorf("%s: summary %q; must have 1 to 60 characters and no final stop", name, summary)
		}
		for _, tag := range op["tags"].([]any) {
			used[tag.(string)] = true
		}
		each(op["parameters"], func(_ string, p object) { described(t, name+": "+p["name"].(string), p) })
		if body, ok := op["requestBody"].(object); ok {
			described(t, name+": body", body)
		}
		all := op["responses"].(object)
		each(all, func(status string, r object) {
			if ref, ok := r["$ref"].(string); ok {
				r = responses[ref[strings.LastIndex(ref, "/")+1:]].(object)
			}
			described(t, name+": "+status, r)
			each(r["headers"], func(h string, o object) { described(t, name+": "+status+": "+h, o) })
		})
		if path != handler.HealthPath && path != handler.ReadyPath && (all["401"] == nil || all["default"] == nil) {
			t.Errorf("%s: no problems documented", name)
		}
	})
	if !maps.Equal(declared, used) {
		t.Errorf("tags: %v are described, %v are used", declared, used)
	}
}

func TestServersAreDescribed(t *testing.T) {
	doc := readDocument(t)
	each(doc["servers"], func(_ string, s object) {
		described(t, "server", s)
		url := s["url"].(string)
		each(s["variables"], func(name string, v object) {
			described(t, name, v)
			url = strings.ReplaceAll(url, "{"+name+"}", fmt.Sprint(v["default"]))
		})
		if url != "http://"+DefaultAddress {
			t.Errorf("the default of the server is %s", url)
		}
	})
	if doc["servers"] == nil {
		t.Error("no servers")
	}
}

func TestDocumentedKindsHaveFeeds(t *testing.T) {
	op := readDocument(t)["paths"].(object)["/v1/changes"].(object)["get"].(object)
	var documented []string
	each(op["parameters"], func(_ string, p object) {
		if p["name"] == "kinds" {
			for _, kind := range p["schema"].(object)["items"].(object)["enum"].([]any) {
				documented = append(documented, kind.(string))
			}
		}
	})
	slices.Sort(documented)
	a, _ := newTestAPI(t)
	if d := cmp.Diff(slices.Sorted(maps.Keys(feeds(a.Edges, a.LoadBalancers, watch.Jobs(0)))), documented); d != "" {
		t.Errorf("kinds of the parameter (-with a feed +documented):\n%s", d)
	}
}

// TestSchemasAreDescribed checks descriptions and examples, of which each must be valid against its schema.
func TestSchemasAreDescribed(t *testing.T) {
	doc := readDocument(t)
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	const url = "https://mycloud.test/openapi.json"
	if err := compiler.AddResource(url, doc); err != nil {
		t.Fatal(err)
	}
	examples := 0
	each(doc["components"].(object)["schemas"], func(name string, s object) {
		described(t, name, s)
		each(s["properties"], func(property string, p object) {
			described(t, name+"."+property, p)
			schema, err := compiler.Compile(url + operation.SchemaPrefix + name + "/properties/" + property)
			if err != nil {
				t.Fatal(err)
			}
			list, _ := p["examples"].([]any)
			for _, example := range list {
				examples++
				if err := schema.Validate(example); err != nil {
					t.Errorf("%s.%s: example %v: %v", name, property, example, err)
				}
			}
		})
	})
	if examples == 0 {
		t.Error("no examples")
	}
}
