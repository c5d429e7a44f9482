package reference

import (
	"slices"
	"strings"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/review"
)

// Find returns the entries of catalogs that a key belongs to.
func Find(l *library.Library, names []string, key string) []Entry {
	return filter(l, names, func(e Entry) bool { return e.names(key) })
}

// Search returns the entries of catalogs that contain every word, in any case: in the catalog's name or title, the keys
// or the help.
func Search(l *library.Library, names []string, words []string) []Entry {
	return filter(l, names, func(e Entry) bool {
		text := strings.ToLower(strings.Join(append([]string{e.Catalog, e.Title, e.Key, e.Help}, e.Aliases...), " "))
		isMissing := func(word string) bool { return !strings.Contains(text, strings.ToLower(word)) }
		return !slices.ContainsFunc(words, isMissing)
	})
}

func filter(l *library.Library, names []string, wanted func(e Entry) bool) []Entry {
	var found []Entry
	for _, name := range names {
		for _, e := range Entries(l, name) {
			if wanted(e) {
				found = append(found, e)
			}
		}
	}
	return found
}

// names reports whether a key is a key of the entry, or its form for a port.
func (e Entry) names(key string) bool {
	if e.PortForm != "" {
		if suffix, ok := strings.CutPrefix(key, e.Key+"."); ok && suffix != "" {
			return true
		}
	}
	return slices.ContainsFunc(append([]string{e.Key}, e.Aliases...), func(name string) bool {
		return name == key || document.InFamily(name, key)
	})
}

// Nearest returns the key of the catalogs, or the id of a finding, that a word is probably a typo of; the empty string
// if none is close.
func Nearest(l *library.Library, names []string, word string) string {
	var candidates []string
	for _, name := range names {
		for _, e := range Entries(l, name) {
			candidates = append(append(candidates, e.Key), e.Aliases...)
		}
	}
	for _, f := range Findings() {
		candidates = append(candidates, f.ID)
	}
	if suggestion, ok := annotation.Suggest(word, candidates); ok {
		return suggestion
	}
	meant, _ := review.Meant(l, word)
	return meant
}
