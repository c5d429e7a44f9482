package lint_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/template"
	"quaymaster.dev/internal/tool/lint"
	"quaymaster.dev/internal/tool/manifest"
)

// expected matches the comment at the end of a line with a finding: its severity and id.
var expected = regexp.MustCompile(`# want: (.*)$`)

// Each finding about annotations of Services to be created is in the line of the annotation, and nothing else is reported.
// A comment in the line says what is expected.
func TestTemplates(t *testing.T) {
	files, err := filepath.Glob("testdata/templates/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	linter := &lint.Linter{}
	covered := map[string]bool{}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for i, line := range strings.Split(string(text), "\n") {
				if match := expected.FindStringSubmatch(line); match != nil {
					for one := range strings.SplitSeq(match[1], ", ") {
						want = append(want, strconv.Itoa(i+1)+" "+one)
					}
				}
			}
			f := manifest.Parse(name, text, linter.Wanted)
			results, counts := linter.Files([]manifest.File{f}, lint.NewReviewer(lint.ReviewerOptions{DefaultClass: true, Placeholders: true}))
			var got []string
			for _, r := range results {
				for _, f := range r.Findings {
					got = append(got, strconv.Itoa(f.Line)+" "+string(f.Severity)+" "+f.ID)
					if !strings.HasSuffix(f.Path, "]") || f.Excerpt.Text == "" {
						t.Errorf("%+v", f)
					}
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" || len(f.Problems) > 0 {
				t.Errorf("%v (-want +got):\n%s", f.Problems, diff)
			}
			for kind := range counts.Checked {
				covered[kind] = true
			}
		})
	}
	guide, err := os.ReadFile("../../../docs/guides/lint-in-ci.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, builtIn := range template.BuiltIn() {
		if !strings.Contains(string(guide), builtIn.Kind) {
			t.Errorf("the guide does not name %s", builtIn.Kind)
		}
		if !covered[builtIn.Kind] {
			t.Errorf("no file has a %s that creates a Service", builtIn.Kind)
		}
	}
}

// Templates of users are used like the built-in ones.
func TestOwnTemplates(t *testing.T) {
	linter := &lint.Linter{Templates: []template.Template{{
		Group: "example.com", Kind: "Shop", Annotations: "spec.doors[].annotations", Type: "spec.doors[].kind", Types: []string{"public"},
	}}}
	f := manifest.Parse("f", []byte("apiVersion: example.com/v1\nkind: Shop\nmetadata: {name: s}\nspec:\n  doors:\n"+
		"  - kind: public\n    annotations:\n      metallb.io/address-poool: a\n"+
		"  - kind: private\n    annotations: {metallb.io/address-poool: a}\n"), linter.Wanted)
	results, counts := linter.Files([]manifest.File{f}, lint.NewReviewer(lint.ReviewerOptions{}))
	if len(results) != 1 || len(results[0].Findings) != 1 || results[0].Findings[0].Line != 8 || counts.Checked["Shop"] != 1 {
		t.Errorf("%+v, %+v", results, counts)
	}
	if lint.Wanted("example.com/v1", "Shop") || !linter.Wanted("example.com/v1", "Shop") || linter.Wanted("example.org/v1", "Shop") {
		t.Error("the group and the kind decide what is wanted")
	}
}

// An Ingress is checked by the catalogs of Ingresses that are selected. On a Service, keys of these only have no effect.
func TestCatalogsOfKinds(t *testing.T) {
	linter := &lint.Linter{}
	f := manifest.Parse("f", []byte("apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i, annotations: {alb.ingress.kubernetes.io/scheme: x}}\n---\n"+
		"apiVersion: v1\nkind: Service\nmetadata: {name: s, annotations: {alb.ingress.kubernetes.io/scheme: x}}\n"+ports), linter.Wanted)
	for name, want := range map[string]int{"": 2, "alb": 2, "hcloud": 0} {
		o := lint.ReviewerOptions{}
		if name != "" {
			o.Catalogs = []string{name}
		}
		results, _ := linter.Files([]manifest.File{f}, lint.NewReviewer(o))
		got := 0
		for _, r := range results {
			got += len(r.Findings)
		}
		if got != want {
			t.Errorf("%q: %d findings, want %d: %+v", name, got, want, results)
		}
	}
}

// Alibaba's controller reads keys with the prefix of AWS's: an Ingress with a key of its own is checked only if the catalog
// is selected.
func TestForeignKeys(t *testing.T) {
	linter := &lint.Linter{}
	for _, tc := range []struct {
		key  string
		o    lint.ReviewerOptions
		want int
	}{
		{"healthcheck-enabled", lint.ReviewerOptions{}, 0},
		{"canary-by-header", lint.ReviewerOptions{}, 0},
		{"albconfig.order", lint.ReviewerOptions{}, 0},
		{"group.order", lint.ReviewerOptions{}, 1},
		{"healthcheck-enabled", lint.ReviewerOptions{Catalogs: []string{"alb"}}, 2},
	} {
		f := manifest.Parse("f", []byte("apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i, annotations: {"+
			"alb.ingress.kubernetes.io/scheme: x, alb.ingress.kubernetes.io/"+tc.key+": \"1\"}}\n"), linter.Wanted)
		results, _ := linter.Files([]manifest.File{f}, lint.NewReviewer(tc.o))
		got := 0
		for _, r := range results {
			got += len(r.Findings)
		}
		if got != tc.want {
			t.Errorf("%s, %v: %d findings, want %d: %+v", tc.key, tc.o.Catalogs, got, tc.want, results)
		}
	}
}

// Whatever a catalog says about a valid value that stands alone, a Gateway with it has no error: the rest of its Service is
// not known.
func TestTemplatesAssumeNothing(t *testing.T) {
	linter := &lint.Linter{}
	tried := 0
	for _, name := range library.BuiltIn().Names() {
		c, _ := library.BuiltIn().Find(name)
		if len(c.Kinds) > 0 || c.Own {
			continue
		}
		for _, a := range c.Document().Annotations {
			if a.Family() || a.Written || len(a.Requires) > 0 || len(a.Checks) > 0 {
				continue
			}
			text := "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: g}\nspec: {infrastructure: {annotations: {" +
				a.Name + ": " + strconv.Quote(a.Valid) + "}}}\n"
			f := manifest.Parse("f", []byte(text), linter.Wanted)
			results, _ := linter.Files([]manifest.File{f}, lint.NewReviewer(lint.ReviewerOptions{Catalogs: []string{name}}))
			tried++
			for _, f := range results[0].Findings {
				if f.Severity == finding.Error {
					t.Errorf("%s: %+v", name, f)
				}
			}
		}
	}
	if tried < 200 {
		t.Errorf("tried %d annotations", tried)
	}
}
