package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const (
	head = `name: example
title: Example
controller: github.com/example/controller
version: VERSION
help: Is for a test.
prefixes: [example.com/]
sharedPrefixes: [example.org/]
elsewhere: [example.com/node-*]
owns: {classes: [example.com/class]}
---
annotations:
`
	entries = `
- {name: example.com/size, help: H, onInvalid: refused, source: [keys/keys.go:7], valid: "1"}
- {name: example.com/removed, help: H, onInvalid: refused, source: [keys/keys.go:8], valid: "1"}
- {name: example.com/unread, help: H, onInvalid: refused, source: [keys/keys.go:9], valid: "1"}
- {name: example.com/mode, aliases: [example.org/mode], help: H, onInvalid: refused, source: [keys/keys.go:10], valid: "1"}
- {name: example.com/documented, help: H, onInvalid: refused, source: ['https://example.com/docs'], valid: "1"}
- {name: 'example.com/port-{port}', help: H, onInvalid: refused, source: [keys/keys.go@0a1b2c3d:11], valid: "1"}
- {name: 'example.com/{portname}_tls', help: H, onInvalid: refused, source: [keys/keys.go:10], valid: "1"}
- {name: example.com/suffixed, help: H, onInvalid: refused, source: [keys/keys.go:11], valid: "1"}
`
	declaration = `
example:
  composed: [{names: Suffix*, prefixes: [example.com/]}]
  known:
  - {keys: [example.com/finalizer], why: It is a finalizer.}
  - {keys: [example.com/stale], why: It was a label.}
`
	former = `package keys

import "example.net/missing"

const (
	Prefix   = "example.com"
	Size     = Prefix + "/size"
	Removed  = Prefix + "/removed"
	Unread   = Prefix + "/unread"
	Mode     = "example.com/mode"
	Port     = Prefix + "/port-"
	SuffixOf = "suffixed"
)

// Read reads.
func Read(a map[string]string) missing.Thing {
	return missing.New(a[Size], a[Removed], a[Unread], a[Mode], a[Port+"80"], a[SuffixOf], "example.com/%s_tls", "example.org/mode")
}
`
	service = `package service

import "github.com/example/controller/keys"

func mode(a map[string]string) bool { return a[keys.Mode] == "on" }

func size(a map[string]string) string { return a[keys.Size] }
`
)

// write writes files, by their paths in a folder.
func write(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func git(t *testing.T, folder string, words ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com"}, words...)...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", words, err, out)
	}
	return strings.TrimSpace(string(out))
}

// example returns folders with a catalog and with the checkout that it describes.
func example(t *testing.T, declaration string) (root, sources string) {
	t.Helper()
	root, sources = t.TempDir(), t.TempDir()
	write(t, sources, map[string]string{
		"controller/go.mod":             "module github.com/example/controller\n",
		"controller/keys/keys.go":       former,
		"controller/service/service.go": service,
		// None of these count.
		"controller/keys/keys_test.go":  "package keys\n\nconst Test = \"example.com/test\"\n",
		"controller/vendor/v/vendor.go": "package v\n\nconst Vendor = \"example.com/vendor\"\n",
		"controller/keys/message.go":    "package keys\n\nconst Message = \"example.com/size must be set\"\n",
	})
	checkout := filepath.Join(sources, "controller")
	git(t, checkout, "init", "-q")
	git(t, checkout, "add", ".")
	git(t, checkout, "commit", "-q", "-m", "former")
	version := "v1.2.3-" + git(t, checkout, "rev-parse", "HEAD")[:12]
	write(t, root, map[string]string{
		catalogs + "/example.yaml": strings.ReplaceAll(head, "VERSION", version) + entries,
		declared:                   declaration,
	})
	return root, sources
}

// differences runs the program and returns the lines that it prints, with the version of the catalog left out.
func differences(t *testing.T, root, vendor, sources string) (lines []string, code int) {
	t.Helper()
	var out, log strings.Builder
	code = run(t.Context(), root, vendor, sources, &out, &log)
	t.Log(log.String())
	for line := range strings.Lines(out.String()) {
		line, _, _ = strings.Cut(line, ";")
		if before, _, found := strings.Cut(line, " since v1.2.3-"); found {
			line = before
		}
		lines = append(lines, line)
	}
	return lines, code
}

func TestUpdate(t *testing.T) {
	root, sources := example(t, strings.ReplaceAll(declaration, "  - {keys: [example.com/stale], why: It was a label.}\n", "")+
		"  - {keys: [example.com/future], why: It is a label.}\n")
	write(t, sources, map[string]string{"controller/keys/known.go": "package keys\n\nvar known = []string{" +
		"\"example.com/finalizer\", \"example.com/future\", \"example.com/node-zone\", \"example.com/class\"}\n"})
	if lines, code := differences(t, root, "example", sources); code != current || len(lines) > 0 {
		t.Errorf("of a current catalog: exit code %d, %q", code, lines)
	}

	write(t, root, map[string]string{declared: declaration})
	write(t, sources, map[string]string{
		"controller/keys/keys.go": strings.NewReplacer("\tRemoved  = Prefix + \"/removed\"\n", "", "a[Removed], a[Unread], ", "",
			"// Read reads.", "const Added = Prefix + \"/added\"\n\n// Read reads all.").Replace(former),
		"controller/keys/known.go": "package keys\n\nvar known = []string{\"example.com/finalizer\"}\n",
		"controller/service/service.go": strings.ReplaceAll(service, `== "on"`, `!= "off"`) +
			"\nfunc added(a map[string]string) string { return a[keys.Added] }\n",
	})
	write(t, root, map[string]string{judges + "/example/explanations.yaml": `
- {vendor: bad mode, why: W, source: ["controller service/service.go:3-5,9", controller/keys/keys.go, "https://example.com/keys/gone.go"]}
- {finding: mode, why: W, source: ["other service/service.go"]}
- {finding: size, why: W, source: ["service/service.go:3-5,11", "service/service.go:5,4", service/service.md, "keys/gone.go (branch former)"]}
`})
	lines, code := differences(t, root, "example", sources)
	const read = "keys/keys.go:18: keys.Read has changed"
	want := []string{
		"different example.com/%s_tls: " + read,
		"different example.com/mode: " + read + ", service.mode has changed",
		"different example.com/port-80: " + read,
		"different example.com/size: " + read,
		"different example.com/suffixed: " + read,
		"different example.org/mode: " + read,
		"gone example.com/removed: " + catalogs + "/example.yaml: the source does not mention it",
		"gone example.com/unread: keys/keys.go:8: no function mentions it",
		"listed example.com/stale: " + declared + ": the catalog and the source agree",
		"new example.com/added: service/service.go:9: added mentions it",
		"moved mode: " + judges + "/example/explanations.yaml: the source has no other service/service.go",
		"moved size: " + judges + "/example/explanations.yaml: the source has no service/service.go:3-5,11",
		"moved size: " + judges + "/example/explanations.yaml: the source has no service/service.go:5,4",
		"moved size: " + judges + "/example/explanations.yaml: the source has no service/service.md",
	}
	if diff := cmp.Diff(want, lines); diff != "" || code != outdated {
		t.Errorf("exit code %d; differences (-want +got):\n%s", code, diff)
	}
}

func TestWithoutHistory(t *testing.T) {
	root, sources := example(t, "example: {known: [], composed: [{names: Suffix*, prefixes: [example.com/]}]}\n")
	if err := os.RemoveAll(filepath.Join(sources, "controller", ".git")); err != nil {
		t.Fatal(err)
	}
	write(t, sources, map[string]string{"controller/service/service.go": strings.ReplaceAll(service, `== "on"`, `!= "off"`)})
	if lines, code := differences(t, root, "example", sources); code != current || len(lines) > 0 {
		t.Errorf("exit code %d, %q", code, lines)
	}
}

func TestUnread(t *testing.T) {
	root, sources := example(t, declaration)
	empty := t.TempDir()
	write(t, empty, map[string]string{"controller/README.md": "No code.\n"})
	for name, args := range map[string][3]string{
		"no such catalog":    {root, "other", sources},
		"no checkout":        {root, "example", ""},
		"no Go files":        {root, "example", empty},
		"no catalogs at all": {empty, "example", sources},
	} {
		if _, code := differences(t, args[0], args[1], args[2]); code != unread {
			t.Errorf("%s: exit code %d", name, code)
		}
	}
	write(t, root, map[string]string{declared: "example: {known: [{keys: [example.com/finalizer]}]}\n"})
	if _, code := differences(t, root, "example", sources); code != unread {
		t.Errorf("a key without a reason: exit code %d", code)
	}
}

// TestModules compares catalogs with the modules of judges that are in the module cache. Others take too long.
func TestModules(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	raw, err := os.ReadFile(filepath.Join(root, declared))
	if err != nil {
		t.Fatal(err)
	}
	var vendors map[string]vendor
	if err := yaml.UnmarshalStrict(raw, &vendors); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOPROXY", "off")
	for name := range vendors {
		t.Run(name, func(t *testing.T) {
			c, err := readCatalog(root, name)
			if err != nil {
				t.Fatal(err)
			}
			if c.Module == "" || c.ModuleVersion != "" {
				t.Skip("no judge pins a module")
			}
			if _, _, err := c.locate(t.Context(), root, c.repositories()[0], ""); err != nil {
				t.Skip("its source is not in the module cache")
			}
			if lines, code := differences(t, root, name, ""); code != current {
				t.Errorf("run make catalogs-update VENDOR=%s; exit code %d:\n%s", name, code, strings.Join(lines, "\n"))
			}
		})
	}
}
