// Package versions_test checks what the documentation says about the versions of Kubernetes that are tested.
// `make test-versions` builds their API servers from the modules in this folder.
package versions_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var release = regexp.MustCompile(`(?m)^\s*(?:require )?k8s\.io/kubernetes (v[0-9.]+)`)

// TestTable: the page names exactly the releases that the modules pin.
func TestTable(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations/versions.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^\| (v[0-9.]+) \|`).FindAllStringSubmatch(string(page), -1) {
		documented[match[1]] = true
	}
	modules, err := filepath.Glob("kubernetes-*/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if len(modules) == 0 {
		t.Fatal("no modules")
	}
	for _, file := range append(modules, "../../../tools/kubernetes/go.mod") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		match := release.FindSubmatch(text)
		if match == nil {
			t.Errorf("%s: does not require k8s.io/kubernetes", file)
			continue
		}
		if version := string(match[1]); !documented[version] {
			t.Errorf("%s: docs/operations/versions.md must have a row for %s", file, version)
		} else {
			delete(documented, version)
		}
	}
	for version := range documented {
		t.Errorf("docs/operations/versions.md has a row for %s, which no module requires", version)
	}
}
