package catalog_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/test/corpus"
)

func TestCorpus(t *testing.T) {
	cases, err := corpus.Clouds()
	if err != nil {
		t.Fatal(err)
	}
	covered := map[string]bool{}
	for _, c := range cases {
		covered[c.Catalog] = true
		t.Run(c.Name, func(t *testing.T) {
			set, err := catalog.NewSet(catalog.Options{
				DefaultClass: true,
				Catalogs:     []string{c.Catalog}, UnknownKeys: map[string]catalog.UnknownKeys{"": catalog.UnknownError},
			})
			if err != nil {
				t.Fatal(err)
			}
			findings := finding.Merge(set.Parse(c.New).Validate())
			if diff := cmp.Diff(corpus.Sorted(c.Causes), corpus.Problems(findings, finding.Error)); diff != "" {
				t.Errorf("errors (-want +got):\n%s\n%+v", diff, findings)
			}
			if diff := cmp.Diff(corpus.Sorted(c.Warnings), corpus.Problems(findings, finding.Warning)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s\n%+v", diff, findings)
			}
		})
	}
	for _, name := range library.BuiltIn().Names() {
		if c, _ := library.BuiltIn().Find(name); !covered[name] && !c.Own && len(c.Kinds) == 0 { // the corpus contains Services
			t.Errorf("the corpus has no cases of %s", name)
		}
	}
}
