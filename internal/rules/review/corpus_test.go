package review_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/test/corpus"
)

func TestCorpus(t *testing.T) {
	cases, err := corpus.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if c.Namespace != "" {
			continue // a case of policies
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

// TestEveryFindingHasACase fails on a documented finding without a case in the corpus, and on an undocumented finding.
func TestEveryFindingHasACase(t *testing.T) {
	cases, err := corpus.Load()
	if err != nil {
		t.Fatal(err)
	}
	mycloud, _ := library.BuiltIn().Find("mycloud")
	shown := map[string]bool{}
	for _, c := range cases {
		if c.Namespace != "" {
			continue
		}
		for _, problem := range slices.Concat(c.Causes, c.Warnings) {
			shown[problem.ID] = true
		}
	}
	for _, doc := range mycloud.Docs() {
		// The API server itself refuses an invalid range: no manifest with one can be applied.
		if !shown[doc.ID] && doc.ID != "dlb-source-range" && doc.Severity != finding.Note {
			t.Errorf("no case has the finding %s", doc.ID)
		}
		delete(shown, doc.ID)
	}
	for _, chapter := range finding.Docs().Chapters {
		for _, doc := range chapter.Findings {
			delete(shown, doc.ID)
		}
	}
	if len(shown) > 0 {
		t.Errorf("the findings %v are not documented", shown)
	}
}

// Every annotation of Quaymaster's own catalog is in a valid Service, and is the cause of a refusal.
func TestEveryKeyHasCases(t *testing.T) {
	cases, err := corpus.Load()
	if err != nil {
		t.Fatal(err)
	}
	var valid, causes []string
	for _, c := range cases {
		if c.New == nil {
			continue
		}
		for _, problem := range c.Causes {
			causes = append(causes, problem.Field)
		}
		if len(c.Causes) == 0 {
			valid = append(valid, slices.Collect(maps.Keys(c.New.Annotations))...)
		}
	}
	mycloud, _ := library.BuiltIn().Find("mycloud")
	for _, a := range mycloud.Document().Annotations {
		matches := func(key string) bool { return key == a.Name || strings.HasPrefix(key, a.Name+".") }
		if !slices.ContainsFunc(valid, matches) {
			t.Errorf("no case in test/corpus/valid has %s", a.Name)
		}
		if !slices.ContainsFunc(causes, func(path string) bool {
			key, _ := strings.CutPrefix(path, "metadata.annotations[")
			return matches(strings.TrimSuffix(key, "]"))
		}) {
			t.Errorf("no case in test/corpus/invalid has a cause at %s", a.Name)
		}
	}
}
