package loadbalancer_test

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/internal/rules"
	"quaymaster.dev/test/corpus"
)

var options = loadbalancer.Options{Class: "mycloud.io/dlb"}

func TestCorpus(t *testing.T) {
	cases, err := corpus.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if c.Namespace != "" {
			continue // it is about policies
		}
		t.Run(c.Name, func(t *testing.T) {
			findings := loadbalancer.Review(c.Old, c.New, options)
			if diff := gocmp.Diff(sorted(c.Causes), problems(findings, rules.Error)); diff != "" {
				t.Errorf("causes (-want +got):\n%s%v", diff, findings)
			}
			if diff := gocmp.Diff(sorted(c.Warnings), problems(findings, rules.Warning)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s%v", diff, findings)
			}
			for _, f := range findings {
				if f.Message == "" || f.Remedy == "" {
					t.Errorf("%s of %s lacks message or remedy", f.ID, f.Field)
				}
			}
		})
	}
}

func problems(findings []rules.Finding, severity rules.Severity) []corpus.Problem {
	var list []corpus.Problem
	for _, f := range findings {
		if f.Severity == severity {
			list = append(list, corpus.Problem{ID: f.ID, Field: f.Field})
		}
	}
	return sorted(list)
}

func sorted(list []corpus.Problem) []corpus.Problem {
	slices.SortFunc(list, func(a, b corpus.Problem) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// TestEveryRuleIsShown fails on a rule without a case in the corpus, and on a finding that the docs do not know.
func TestEveryRuleIsShown(t *testing.T) {
	cases, err := corpus.Load()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, c := range cases {
		if c.Namespace != "" {
			continue
		}
		for _, problem := range slices.Concat(c.Causes, c.Warnings) {
			shown[problem.ID] = true
		}
	}
	for _, rule := range loadbalancer.Rules() {
		// A malformed range is refused by the API server itself: no manifest with one can be applied.
		if !shown[rule.ID] && rule.ID != "dlb-source-range" {
			t.Errorf("no case shows %s", rule.ID)
		}
		delete(shown, rule.ID)
	}
	if len(shown) > 0 {
		t.Errorf("the docs lack %v", shown)
	}
}
