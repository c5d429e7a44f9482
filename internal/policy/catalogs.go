package policy

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/loadbalancer"
)

// Selection says by which catalogs Services are judged.
type Selection struct {
	// Catalogs are names of CatalogNames.
	Catalogs []string
	// UnknownKeys is the severity of keys under a catalog's prefix that it does not know, by the catalog's name; "" is that of all
	// others, by default an error. Those of the DLB are errors always.
	UnknownKeys map[string]finding.Severity
}

// CatalogNames are those of all catalogs, with that of the DLB.
func CatalogNames() []string {
	names := append(catalog.Names(), loadbalancer.Catalog)
	slices.Sort(names)
	return names
}

// NewJudge makes a judge for Services of a class and of other clouds, where these are selected. Errors name the catalog that does not
// exist.
func NewJudge(o loadbalancer.Options, s Selection) (Judge, error) {
	known := CatalogNames()
	for _, name := range s.Catalogs {
		if !slices.Contains(known, name) {
			return Judge{}, fmt.Errorf("must be names among %s; got %q%s", strings.Join(known, ", "), name, nearestCatalog(name))
		}
	}
	set, err := catalog.NewSet(others(s.Catalogs), s.UnknownKeys)
	if err != nil {
		return Judge{}, err
	}
	return Judge{Options: o, Catalogs: set}.by(s.Catalogs), nil
}

// nearestCatalog goes on a sentence about a name that no catalog has.
func nearestCatalog(name string) string {
	if candidate, slips := annotation.Nearest(name, CatalogNames()); annotation.Near(name, slips) {
		return "; the nearest is " + candidate
	}
	return ""
}

// others are the catalogs of other clouds.
func others(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == loadbalancer.Catalog })
}

// by is the judge that judges by these catalogs alone.
func (j Judge) by(names []string) Judge {
	j.Options.Off = !slices.Contains(names, loadbalancer.Catalog)
	j.Catalogs = j.Catalogs.With(others(names))
	return j
}

// chosen is the judge of a namespace, where a policy chooses the catalogs.
func (j Judge) chosen(applicable []*Policy) Judge {
	for _, p := range applicable {
		if p.catalogs != nil {
			return j.by(p.catalogs)
		}
	}
	return j
}

// clouds judges a Service by all catalogs.
func (j Judge) clouds(oldSvc, newSvc *corev1.Service) []finding.Finding {
	return finding.Merge(slices.Concat(loadbalancer.Review(oldSvc, newSvc, j.Options), j.Catalogs.Review(oldSvc, newSvc)))
}
