package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/tool/settings"
)

// validator returns a function that validates YAML with a schema.
func validator(t *testing.T, file string) func(text []byte) error {
	t.Helper()
	raw, err := os.ReadFile("../reference/" + file)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(file, document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile(file)
	if err != nil {
		t.Fatal(err)
	}
	return func(text []byte) error {
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
}

// The schema accepts the config file that the guide shows, and refuses what the decoder refuses.
func TestSettingsSchema(t *testing.T) {
	valid := validator(t, "quayctl.schema.json")
	guide, err := os.ReadFile("../guides/lint-in-ci.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, found := strings.Cut(string(guide), "```yaml\n# yaml-language-server: $schema=")
	example, _, closed := strings.Cut(example, "\n```\n")
	if !found || !closed {
		t.Fatal("the guide shows no config file")
	}
	name := filepath.Join(t.TempDir(), settings.Name)
	if err := os.WriteFile(name, []byte("# "+example), 0o600); err != nil {
		t.Fatal(err)
	}
	f, problems := settings.Read(name)
	if len(problems) == 0 {
		problems = f.Problems(library.BuiltIn())
	}
	if err := valid([]byte("# " + example)); err != nil || len(problems) > 0 {
		t.Errorf("%v; %v", err, problems)
	}
	for _, text := range []string{"catalog: []", "catalogs: x", "severities: {x: audit}", "ignores: [{ids: [x]}]"} {
		if valid([]byte(text)) == nil {
			t.Errorf("the schema accepts %q", text)
		}
	}
}

// The schema accepts every built-in catalog, and refuses what the decoder refuses.
func TestCatalogSchema(t *testing.T) {
	valid := validator(t, "catalog.schema.json")
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
