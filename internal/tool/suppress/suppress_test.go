package suppress_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/tool/manifest"
	"quaymaster.dev/internal/tool/report"
	"quaymaster.dev/internal/tool/suppress"
)

func found(id string, line int) report.Finding {
	return report.Finding{ID: id, Severity: finding.Error, Path: "spec." + id, Value: "v", Line: line, Column: 1}
}

// outcome returns what counts, as id:line:severity, and what does not, as id:line=reason.
func outcome(results []report.Result) (all []string) {
	for _, r := range results {
		for _, f := range r.Findings {
			all = append(all, f.ID+":"+string(rune('0'+f.Line))+":"+string(f.Severity))
		}
		for _, f := range r.Suppressed {
			all = append(all, f.ID+":"+string(rune('0'+f.Line))+"="+f.Suppression.Justification)
		}
	}
	return all
}

func TestApply(t *testing.T) {
	for name, tc := range map[string]struct {
		text    string
		options suppress.Options
		want    []string
	}{
		"nothing": {"a: 1\nb: 2\n", suppress.Options{}, []string{"x:1:error", "y:2:error"}},
		"comments at and above lines": {
			"a: 1 # quayctl:ignore x: why\n\n# quayctl:ignore x: no such line\nb: 2\n", suppress.Options{},
			[]string{"y:2:error", "ignore-unused:3:warning", "x:1=why"},
		},
		"a comment for several":    {"a: 1 # quayctl:ignore x, z: why\n", suppress.Options{}, []string{"ignore-unused:1:warning", "y:2:error", "x:1=why"}},
		"a comment without reason": {"a: 1 # quayctl:ignore x\n", suppress.Options{}, []string{"x:1:error", "ignore-invalid:1:error", "y:2:error"}},
		"a comment without id":     {"a: 1 # quayctl:ignore: why\n", suppress.Options{}, []string{"x:1:error", "ignore-invalid:1:error", "y:2:error"}},
		"severities": {
			"a: 1\n", suppress.Options{Severities: map[string]finding.Severity{"x": finding.Note}}, []string{"x:1:note", "y:2:error"},
		},
		"everywhere": {
			"a: 1\n", suppress.Options{Rules: []suppress.Rule{{IDs: []string{"z", "x"}, Reason: "why"}}}, []string{"y:2:error", "x:1=why"},
		},
		"in a folder": {
			"a: 1\n", suppress.Options{Folder: "conf", Rules: []suppress.Rule{{Paths: []string{"no", "../deploy/"}, IDs: []string{"x"}, Reason: "why"}}},
			[]string{"y:2:error", "x:1=why"},
		},
		"by a pattern": {
			"a: 1\n", suppress.Options{Rules: []suppress.Rule{{Paths: []string{"**/f.*"}, IDs: []string{"x"}, Reason: "why"}}}, []string{"y:2:error", "x:1=why"},
		},
		"elsewhere": {
			"a: 1\n", suppress.Options{Rules: []suppress.Rule{{Paths: []string{"dep", "deploy/*.json"}, IDs: []string{"x"}, Reason: "why"}}},
			[]string{"x:1:error", "y:2:error"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := manifest.Parse("deploy/f.yaml", []byte(tc.text), func(string, string) bool { return true })
			results := []report.Result{{File: file.Name, Line: 1, Findings: []report.Finding{found("x", 1), found("y", 2)}}}
			suppress.Apply(results, []manifest.File{file}, tc.options)
			if diff := cmp.Diff(tc.want, outcome(results)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A comment belongs to the last object that begins before its line, and to the first one if none does.
func TestCommentsOfObjects(t *testing.T) {
	text := "# quayctl:ignore x: first\na: 1\n---\nb: 1\n---\nc: 1 # quayctl:ignore x: last\n"
	file := manifest.Parse("f", []byte(text), func(string, string) bool { return true })
	results := []report.Result{{File: "f", Line: 6}, {File: "other", Line: 6}, {File: "f", Line: 4}}
	for i := range results {
		results[i].Findings = []report.Finding{found("x", results[i].Line)}
	}
	suppress.Apply(results, []manifest.File{file}, suppress.Options{})
	want := []string{"x:6=last", "x:6:error", "ignore-unused:1:warning", "x:4:error"}
	if diff := cmp.Diff(want, outcome(results)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A folder stands for everything in it, however it is written, and a pattern only for what it matches.
func TestPaths(t *testing.T) {
	for pattern, want := range map[string]bool{
		".": true, "./": true, "./deploy": true, "deploy/": true, "deploy/a": true, "deploy/../deploy": true, "deploy/**": true, "*/a": true,
		"*": false, "deploy/*": false, "deploy/*/*": true, "d?ploy": false, "{deploy,x}": false,
	} {
		results := []report.Result{{File: "deploy/a/f.yaml", Findings: []report.Finding{found("x", 1)}}}
		suppress.Apply(results, nil, suppress.Options{Rules: []suppress.Rule{{Paths: []string{pattern}, IDs: []string{"x"}, Reason: "why"}}})
		if got := len(results[0].Suppressed) == 1; got != want {
			t.Errorf("%s: %v, want %v", pattern, got, want)
		}
	}
}

func TestAnnotations(t *testing.T) {
	at := func(string) manifest.Place { return manifest.Place{Line: 3} }
	results := []report.Result{{
		Findings: []report.Finding{found("x", 1), found("x", 2), found("y", 2)},
		Ignores: suppress.Annotations(map[string]string{
			"ignore.quaymaster.dev/x": "why", "ignore.quaymaster.dev/y": " ", "ignore.quaymaster.dev/z": "gone",
			"ignore.quaymaster.dev/Y?": "why", "quaymaster.dev/x": "other",
		}, at),
	}}
	suppress.Apply(results, nil, suppress.Options{})
	want := []string{"y:2:error", "ignore-invalid:3:error", "ignore-invalid:3:error", "ignore-unused:3:warning", "x:1=why", "x:2=why"}
	if diff := cmp.Diff(want, outcome(results)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A finding of the baseline is recognized in another line, but not another value, and only as often as it was there.
func TestBaseline(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "deploy", "f.yaml")
	was := []report.Result{{File: file, Object: report.Object{Kind: "Service", Name: "s"}, Findings: []report.Finding{
		found("x", 1), found("x", 2), found("y", 2), found("gone", 4),
	}}}
	name := filepath.Join(folder, "baseline.json")
	if err := suppress.WriteBaseline(name, was, suppress.OfFiles(folder, []string{file})); err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b, problems := suppress.ReadBaseline(name)
	if len(problems) > 0 || strings.Contains(string(out), folder) {
		t.Fatalf("%v\n%s", problems, out)
	}
	other := found("y", 5)
	other.Value = "w"
	now := []report.Result{{File: file, Object: was[0].Object, Findings: []report.Finding{
		found("x", 7), found("x", 8), found("x", 9), found("y", 5), other,
	}}}
	b.Apply(now)
	reason := "in the baseline " + filepath.ToSlash(name)
	want := []string{"x:9:error", "y:5:error", "y:5=" + reason, "x:7=" + reason, "x:8=" + reason}
	if diff := cmp.Diff(want, outcome(now)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	here, elsewhere := b.Gone(suppress.OfFiles(folder, []string{file})), b.Gone(suppress.OfFiles(folder, []string{"other.yaml"}))
	if here != 1 || elsewhere != 0 {
		t.Errorf("%d and %d findings are gone, want 1 and 0", here, elsewhere)
	}
}

// What a run does not look at is neither gone nor dropped.
func TestScopes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "b.json")
	a, b := filepath.Join(filepath.Dir(name), "a.yaml"), filepath.Join(filepath.Dir(name), "b.yaml")
	of := func(file, namespace string, checks ...string) []report.Result {
		r := report.Result{File: file, Object: report.Object{Kind: "Service", Namespace: namespace, Name: "s"}}
		for _, check := range checks {
			f := found("x", 1)
			f.Check = check
			r.Findings = append(r.Findings, f)
		}
		return []report.Result{r}
	}
	files := func(names ...string) suppress.Scope { return suppress.OfFiles(filepath.Dir(name), names) }
	for _, one := range []struct {
		results []report.Result
		scope   suppress.Scope
	}{
		{of(a, "n", "1", "2"), files(a)},
		{of(b, "n", "1"), files(b)},
		{of("", "n", "1"), suppress.OfCluster("n")},
		{of("", "m", "1"), suppress.OfCluster("m")},
		{of(a, "n", "1"), files(a)}, // "2" is gone
	} {
		if err := suppress.WriteBaseline(name, one.results, one.scope); err != nil {
			t.Fatal(err)
		}
	}
	known, problems := suppress.ReadBaseline(name)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for want, scope := range map[int]suppress.Scope{0: files("c.yaml"), 1: files(a), 2: suppress.OfCluster("")} {
		if got := known.Gone(scope); got != want {
			t.Errorf("%d are gone, want %d", got, want)
		}
	}
	if got := known.Gone(suppress.OfCluster("m")); got != 1 {
		t.Errorf("%d are gone in the namespace, want 1", got)
	}
	// Another check on the same value is new.
	now := of(a, "n", "3")
	if known.Apply(now); len(now[0].Findings) != 1 {
		t.Errorf("%+v", now)
	}
}

func TestReadBaselineProblems(t *testing.T) {
	folder := t.TempDir()
	for text, want := range map[string]string{
		"{\n\"findings\": [\n{\"idd\": \"x\"}]}": ":3: findings[0].idd: unknown field",
		"":                                       "must have one document",
		"{":                                      "must be valid",
	} {
		name := filepath.Join(folder, "b.json")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, problems := suppress.ReadBaseline(name); len(problems) != 1 || !strings.Contains(problems[0].String(), want) {
			t.Errorf("%q: %v, want %q", text, problems, want)
		}
	}
	if _, problems := suppress.ReadBaseline(filepath.Join(folder, "none")); len(problems) != 1 {
		t.Errorf("a missing file: %v", problems)
	}
}
