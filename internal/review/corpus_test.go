package review_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/test/corpus"
)

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
			findings := own.Review(c.Old, c.New, nil)
			if diff := gocmp.Diff(corpus.Sorted(c.Causes), corpus.Problems(findings, finding.Error)); diff != "" {
				t.Errorf("causes (-want +got):\n%s%v", diff, findings)
			}
			if diff := gocmp.Diff(corpus.Sorted(c.Warnings), corpus.Problems(findings, finding.Warning)); diff != "" {
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

// TestEveryRuleIsShown fails on a rule without a case in the corpus, and on a finding that the docs do not know.
func TestEveryRuleIsShown(t *testing.T) {
	cases, err := corpus.Load()
	if err != nil {
		t.Fatal(err)
	}
	mycloud, _ := catalog.Find("mycloud")
	shown := map[string]bool{}
	for _, c := range cases {
		if c.Namespace != "" {
			continue
		}
		for _, problem := range slices.Concat(c.Causes, c.Warnings) {
			shown[problem.ID] = true
		}
	}
	for _, rule := range mycloud.Docs() {
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

// Every annotation of the own catalog is in a Service that passes, and is blamed in one that does not.
func TestEveryKeyHasCases(t *testing.T) {
	cases, err := corpus.Load()
	if err != nil {
		t.Fatal(err)
	}
	var passing, blamed []string
	for _, c := range cases {
		if c.New == nil {
			continue
		}
		for _, problem := range c.Causes {
			blamed = append(blamed, problem.Field)
		}
		if len(c.Causes) == 0 {
			passing = append(passing, slices.Collect(maps.Keys(c.New.Annotations))...)
		}
	}
	mycloud, _ := catalog.Find("mycloud")
	for _, a := range mycloud.Document().Annotations {
		of := func(key string) bool { return key == a.Name || strings.HasPrefix(key, a.Name+".") }
		if !slices.ContainsFunc(passing, of) {
			t.Errorf("no case in test/corpus/valid has %s", a.Name)
		}
		if !slices.ContainsFunc(blamed, func(path string) bool {
			key, _ := strings.CutPrefix(path, "metadata.annotations[")
			return of(strings.TrimSuffix(key, "]"))
		}) {
			t.Errorf("no case in test/corpus/invalid blames %s", a.Name)
		}
	}
}
