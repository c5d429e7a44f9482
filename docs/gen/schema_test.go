package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// The schema accepts every built-in catalog, and refuses what the decoder refuses.
func TestCatalogSchema(t *testing.T) {
	raw, err := os.ReadFile("../reference/catalog.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("catalog.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("catalog.json")
	if err != nil {
		t.Fatal(err)
	}
	valid := func(text []byte) error {
		var value any
		converted, err := yaml.YAMLToJSON(text)
		if err == nil {
			err = json.Unmarshal(converted, &value)
		}
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(value)
	}
	files, err := filepath.Glob("../../internal/rules/catalog/catalogs/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no catalogs: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range bytes.SplitN(text, []byte("\n---\n"), 2) {
			if err := valid(part); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	for _, text := range []string{
		"{}", "name: x\nprefix: y\n", "annotations: [{name: x}]", "annotations: []\nchecks: [{id: x, onBreach: denied}]", "name: 1\n",
	} {
		if valid([]byte(text)) == nil {
			t.Errorf("the schema accepts %q", text)
		}
	}
}
