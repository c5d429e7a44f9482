package catalog_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"quaymaster.dev/internal/rules/catalog/library"
)

// factsFolder holds research about the controllers, if it is available. Each fact must be in a catalog, which may also
// leave it out with a reason.
const factsFolder = "../../../../shared/catalog-facts"

// places translates the placeholders of facts into those of catalogs.
var places = strings.NewReplacer("${Protocol}-${Port}", "{any}-{port}", "${", "{")

func TestFactsAreKnown(t *testing.T) {
	if _, err := os.Stat(factsFolder); err != nil {
		t.Skip("the facts are not available")
	}
	each(t, func(t *testing.T, c *library.Catalog) {
		raw, err := os.ReadFile(filepath.Join(factsFolder, c.Name+".yaml"))
		if err != nil {
			t.Skip(err)
		}
		var facts struct {
			Annotations []struct {
				Name    string   `json:"name"`
				Aliases []string `json:"aliases"`
			} `json:"annotations"`
		}
		if err := yaml.Unmarshal(raw, &facts); err != nil {
			t.Fatal(err)
		}
		var known []string
		d := c.Document()
		for _, left := range d.Left {
			known = append(known, left.Name)
		}
		for _, a := range d.Annotations {
			known = append(append(known, a.Name), a.Aliases...)
		}
		for _, fact := range facts.Annotations {
			for _, name := range append([]string{fact.Name}, fact.Aliases...) {
				name = places.Replace(name)
				if !slices.Contains(known, name) && !c.Knows(name) {
					t.Errorf("%s is neither in the catalog nor left out with a reason", name)
				}
			}
		}
	})
}
