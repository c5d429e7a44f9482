package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// The YAML files are the source of the catalogs, and the files that programs embed are equal to them.
func TestCompiledCatalogsAreUpToDate(t *testing.T) {
	compiled, err := read("../../catalogs")
	if err != nil {
		t.Fatal(err)
	}
	if len(compiled) == 0 {
		t.Fatal("there are no catalogs")
	}
	entries, err := os.ReadDir("../compiled")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if _, ok := compiled[entry.Name()]; !ok {
			t.Errorf("compiled/%s has no YAML file; run make generate", entry.Name())
		}
	}
	for name, want := range compiled {
		got, err := os.ReadFile("../compiled/" + name)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("compiled/%s differs from its YAML file (error %v); run make generate", name, err)
		}
	}
}

func TestCompilerIsStrict(t *testing.T) {
	const good = "name: x\ntitle: X\n---\nannotations: []\n"
	if got, err := compile("x", []byte(good)); err != nil || strings.Count(string(got), "\n") != 2 {
		t.Fatalf("got %q, %v", got, err)
	}
	for name, text := range map[string]string{
		"one document":              "name: x\n",
		"name of another file":      strings.Replace(good, "name: x", "name: y", 1),
		"unknown field":             good + "anotations: []\n",
		"repeated key":              good + "annotations: []\n",
		"unknown field in the head": "prefix: x\n" + good,
	} {
		if got, err := compile("x", []byte(text)); err == nil {
			t.Errorf("%s: compiled to %q", name, got)
		}
	}
}
