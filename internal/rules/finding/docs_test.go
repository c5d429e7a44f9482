package finding_test

import (
	"slices"
	"testing"

	"quaymaster.dev/internal/rules/finding"
)

func TestDocsAreComplete(t *testing.T) {
	docs := finding.Docs()
	seen := map[string]bool{}
	check := func(docs []finding.Doc) {
		t.Helper()
		if len(docs) == 0 {
			t.Error("there are no findings")
		}
		for _, d := range docs {
			if seen[d.ID] || d.ID == "" || d.Help == "" || !slices.Contains([]finding.Severity{finding.Error, finding.Warning, finding.Note}, d.Severity) {
				t.Errorf("documented twice, or incomplete: %+v", d)
			}
			seen[d.ID] = true
		}
	}
	for _, c := range docs.Chapters {
		if c.Title == "" {
			t.Error("a chapter has no title")
		}
		check(c.Findings)
	}
	check(docs.Catalogs)
	for _, d := range docs.OwnCatalog {
		if !seen[d.ID] {
			t.Errorf("no other catalog has %s", d.ID)
		}
		delete(seen, d.ID)
	}
	check(docs.OwnCatalog)
}
