package lint_test

import (
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/tool/lint"
	"quaymaster.dev/internal/tool/manifest"
	"quaymaster.dev/internal/tool/report"
	"quaymaster.dev/test/corpus"
)

// The linter parses the files itself and must reach the same verdict as the engine.
func TestCorpus(t *testing.T) {
	cases, err := corpus.Load()
	if err != nil {
		t.Fatal(err)
	}
	checked := map[string]int{}
	for _, c := range cases {
		if c.Old != nil || c.OldPolicies.Namespaced != nil || c.OldPolicies.Cluster != nil {
			continue // the linter does not know the old object
		}
		t.Run(c.Name, func(t *testing.T) {
			result, ok := lintCase(t, c)
			if !ok {
				return
			}
			checked[path.Dir(c.Name)]++
			got := corpus.Verdict{Causes: problems(result, finding.Error), Warnings: problems(result, finding.Warning)}
			want := corpus.Verdict{Causes: corpus.Sorted(c.Causes), Warnings: corpus.Sorted(c.Warnings)}
			want.Warnings = slices.DeleteFunc(want.Warnings,
				func(p corpus.Problem) bool { return p.ID == "policy-selects-nothing" })
			if diff := cmp.Diff(normal(want), normal(got)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
			for _, f := range result.Findings {
				if f.Line < result.Line || f.Column < 1 {
					t.Errorf("%s is at %d:%d, the object at line %d", f.Path, f.Line, f.Column, result.Line)
				}
			}
		})
	}
	for kind, least := range map[string]int{"valid": 20, "invalid": 80, "limited": 10, "policies": 10} {
		if checked[kind] < least {
			t.Errorf("checked %d cases of %s, want at least %d", checked[kind], kind, least)
		}
	}
}

// lintCase returns the result of the last object of a case, which is the one under test. A Service of another type has
// no result.
func lintCase(t *testing.T, c corpus.Case) (report.Result, bool) {
	t.Helper()
	text, err := os.ReadFile("../../../test/corpus/" + c.Name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	f := manifest.Parse("f", []byte(strings.ReplaceAll(string(text), "NAMESPACE", c.Namespace)), lint.Wanted)
	if len(f.Problems) > 0 {
		t.Fatal(f.Problems)
	}
	namespaces := map[string]map[string]string{c.Namespace: lint.Labels(nil, c.Namespace),
		"other": lint.Labels(nil, "other")}
	linter := lint.Linter{Namespace: c.Namespace}
	policies, results := linter.Policies(f.Objects, namespaces)
	reviewer := lint.NewReviewer(lint.ReviewerOptions{Catalogs: []string{"mycloud"}, Class: config.DefaultLoadBalancerClass, DefaultClass: true,
		Policies: policies, Namespaces: namespaces})
	if c.New != nil {
		results, _ = linter.Files([]manifest.File{f}, reviewer)
		if len(results) == 0 && len(c.Causes)+len(c.Warnings) == 0 {
			return report.Result{}, false
		}
	}
	if len(results) == 0 {
		t.Fatal("no result")
	}
	return results[len(results)-1], true
}

func problems(r report.Result, severity finding.Severity) []corpus.Problem {
	var list []corpus.Problem
	for _, f := range r.Findings {
		if f.Severity == severity {
			list = append(list, corpus.Problem{ID: f.ID, Field: f.Path})
		}
	}
	return corpus.Sorted(list)
}

// normal replaces empty lists by nil.
func normal(v corpus.Verdict) corpus.Verdict {
	v.Audits = nil
	if len(v.Warnings) == 0 {
		v.Warnings = nil
	}
	if len(v.Causes) == 0 {
		v.Causes = nil
	}
	return v
}
