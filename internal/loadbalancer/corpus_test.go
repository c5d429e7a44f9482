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
