// Command compile writes the JSON form of the catalogs, which programs embed: it is decoded several times as fast as the
// YAML, on every start. Its arguments are the folder of the YAML files and the folder to write to.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"quaymaster.dev/internal/rules/catalog/document"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: compile FROM TO")
		os.Exit(2)
	}
	if err := compileAll(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "compile:", err)
		os.Exit(1)
	}
}

// compileAll writes one file for each YAML file, and removes all others.
func compileAll(from, to string) error {
	compiled, err := read(from)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil { //nolint:gosec // catalogs are not secret
		return err
	}
	for name, text := range compiled {
		if err := os.WriteFile(filepath.Join(to, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// read returns the compiled form of the YAML files of a folder by file name.
func read(folder string) (map[string][]byte, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	compiled := map[string][]byte{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if compiled[name+".json"], err = compile(name, raw); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return compiled, nil
}

// compile returns one line of JSON for each of the two documents. Only the compiler is strict about unknown fields and
// repeated keys.
func compile(name string, raw []byte) ([]byte, error) {
	head, body, found := bytes.Cut(raw, []byte("\n---\n"))
	if !found {
		return nil, errors.New("has no second YAML document")
	}
	var h document.Head
	if err := yaml.UnmarshalStrict(head, &h); err != nil {
		return nil, err
	}
	if h.Name != name {
		return nil, fmt.Errorf("must be named after its catalog, %s", h.Name)
	}
	if err := yaml.UnmarshalStrict(body, &document.Body{}); err != nil {
		return nil, err
	}
	var lines []byte
	for _, document := range [][]byte{head, body} {
		line, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, err
		}
		lines = append(append(lines, line...), '\n')
	}
	return lines, nil
}
