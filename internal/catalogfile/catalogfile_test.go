package catalogfile_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/catalogfile"
	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/test/builder"
)

const cloud = `name: example
title: Example Cloud
controller: github.com/example/ccm
version: v1.0.0
date: "2026-10-01"
help: The controller refuses what it cannot parse.
prefixes: [lb.example.com/]
owns: {noClass: true}
---
annotations:
` + size

const size = `- name: lb.example.com/size
  help: The size.
  type: enum
  values: [small, large]
  onInvalid: refused
  source: [docs]
  valid: small
  invalid: huge
`

const newer = `name: hcloud
version: v9.0.0
date: "2026-12-01"
---
annotations:
- name: load-balancer.hetzner.cloud/type
  help: The type.
  type: enum
  values: [lb11]
  onInvalid: refused
  source: [docs]
  valid: lb11
  invalid: lb1
- name: load-balancer.hetzner.cloud/shiny
  help: Whether it shines.
  type: bool
  onInvalid: refused
  source: [docs]
  valid: "true"
  invalid: "yes"
`

func extend(texts ...string) (*library.Library, []string) {
	var sources []catalogfile.Source
	for _, text := range texts {
		sources = append(sources, catalogfile.Source{Name: "x.yaml", Data: []byte(text)})
	}
	l, problems := catalogfile.Extend(library.BuiltIn(), sources)
	var all []string
	for _, p := range problems {
		all = append(all, p.String())
	}
	return l, all
}

// findings validates a Service with an annotation.
func findings(t *testing.T, l *library.Library, name, key, value string) []string {
	t.Helper()
	set, err := catalog.NewSet(catalog.Options{DefaultClass: true, Catalogs: []string{name}, Library: l})
	if err != nil {
		t.Fatal(err)
	}
	svc := builder.Service()
	svc.Annotations = map[string]string{key: value}
	found := []string{}
	for _, f := range set.Parse(svc).Validate() {
		found = append(found, string(f.Severity)+" "+f.ID)
	}
	return found
}

func TestExtend(t *testing.T) {
	l, problems := extend(cloud, newer)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	const hetzner = "load-balancer.hetzner.cloud/"
	for name, c := range map[string]struct {
		catalog, key, value string
		want                []string
	}{
		"a new catalog":             {"example", "lb.example.com/size", "huge", []string{"error example-invalid-value"}},
		"a valid value":             {"example", "lb.example.com/size", "large", []string{}},
		"an unknown key":            {"example", "lb.example.com/sise", "large", []string{"error example-unknown-key"}},
		"an entry that is replaced": {"hcloud", hetzner + "type", "lb21", []string{"error hcloud-invalid-value"}},
		"an entry that is added":    {"hcloud", hetzner + "shiny", "true", []string{}},
		"an entry that stays":       {"hcloud", hetzner + "ipv6-disabled", "maybe", []string{"error hcloud-invalid-value"}},
	} {
		if got := findings(t, l, c.catalog, c.key, c.value); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	if got := findings(t, library.BuiltIn(), "hcloud", hetzner+"type", "lb21"); len(got) > 0 {
		t.Errorf("the built-in catalog has changed: %q", got)
	}
	if got := l.Detect(builder.Service()); len(got) > 0 {
		t.Errorf("detected %q", got)
	}
	if c, _ := l.Find("hcloud"); !strings.Contains(c.Described(), "v9.0.0, 2026-12-01") {
		t.Errorf("described as %q", c.Described())
	}
}

func TestProblems(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"all at once": {strings.NewReplacer("type: enum", "typ: enum", "[small, large]", "small", "date: \"2026-10-01\"", "date: soon").Replace(cloud), []string{
			`x.yaml:13: annotations[0].typ: unknown field; did you mean "type"?`,
			`x.yaml:14: annotations[0].values: must be a list, not a string; correct the value`,
			`x.yaml:1: the head must have a date such as 2026-08-19; got "soon"`,
		}},
		"two entries": {cloud + strings.ReplaceAll(size, "help: The size.", `help: ""`), []string{
			"x.yaml:1: lb.example.com/size occurs twice", "x.yaml:11: lb.example.com/size lacks help",
		}},
		"a function that does not exist": {cloud + "  checks: [{name: nothing}]\n", []string{`x.yaml:11: lb.example.com/size names a function "nothing" that does not exist`}},
		"a valid example that is not":    {strings.Replace(cloud, "valid: small", "valid: tiny", 1), []string{`x.yaml:11: lb.example.com/size refuses its valid example "tiny"`}},
		"a placeholder":                  {strings.Replace(cloud, "com/size", "com/{size}", 1), []string{"x.yaml:11: lb.example.com/{size} has an unknown placeholder {size}"}},
		"one document":                   {"name: example\n", []string{"x.yaml: must have two YAML documents, the head and the body of a catalog, separated by ---; has 1"}},
		"no YAML":                        {"{", []string{"x.yaml:1: must be valid YAML or JSON: did not find expected node content"}},
		"the own catalog":                {"name: mycloud\n---\nannotations: []\n", []string{"x.yaml:1: must not be a catalog of Quaymaster's own controller"}},
		"a prefix of the own catalog": {strings.ReplaceAll(cloud, "lb.example.com/", "service.beta.kubernetes.io/dlb-x-"), []string{
			"x.yaml:7: prefix service.beta.kubernetes.io/dlb-x- belongs to the catalog mycloud",
		}},
		"too large": {cloud + strings.Repeat("#", 256<<10), []string{"x.yaml: must have at most 256 KiB"}},
	} {
		t.Run(name, func(t *testing.T) {
			l, got := extend(c.text)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if l != library.BuiltIn() {
				t.Error("the library is not the given one")
			}
		})
	}
	if _, got := extend(slices.Repeat([]string{cloud}, 21)...); len(got) != 1 {
		t.Errorf("too many files: %q", got)
	}
}

func TestRead(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"a.yaml", "b.yaml", "README.md"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(cloud), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sources, problems := catalogfile.Read([]string{folder, filepath.Join(folder, "README.md"), filepath.Join(folder, "none")})
	if len(sources) != 3 || len(problems) != 1 || !strings.Contains(problems[0].String(), "no such file") {
		t.Errorf("read %d files, problems %v", len(sources), problems)
	}
}
