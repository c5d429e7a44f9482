package catalog

import (
	"slices"

	"quaymaster.dev/internal/rules/catalog/library"
)

// Aliases returns the other keys that the controllers read as the same annotation as the key.
func (p *Parsed) Aliases(key string) []string {
	return appendAliases(appendAliases(nil, key, p.set.catalogs), key, p.set.others)
}

func appendAliases(all []string, key string, catalogs []*library.Catalog) []string {
	for _, c := range catalogs {
		if !c.Concerns(key) {
			continue
		}
		e, b, found := c.Contents().Find(key)
		if !found || len(e.Aliases) == 0 {
			continue
		}
		for _, name := range e.Names() {
			if name = b.Expand(name); name != key && !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// WithAliases returns the Service with the aliases of other catalogs, too, which do not validate it.
func (p *Parsed) WithAliases(catalogs []string) *Parsed {
	other := *p
	other.set.others = p.set.With(catalogs).catalogs
	return &other
}
