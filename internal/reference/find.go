package reference

import (
	"slices"
	"strings"

	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/catalog"
)

// Find returns the entries that a key belongs to, of every catalog that has it.
func Find(names []string, key string) []Entry {
	return among(names, func(e Entry) bool { return e.names(key) })
}

// Search returns the entries in which every word occurs, in key or help, in any case.
func Search(names []string, words []string) []Entry {
	return among(names, func(e Entry) bool {
		text := strings.ToLower(strings.Join(append([]string{e.Catalog, e.Title, e.Key, e.Help}, e.Aliases...), " "))
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, strings.ToLower(word)) })
	})
}

func among(names []string, wanted func(e Entry) bool) []Entry {
	var found []Entry
	for _, name := range names {
		for _, e := range Entries(name) {
			if wanted(e) {
				found = append(found, e)
			}
		}
	}
	return found
}

// names reports whether a key is the entry's, or its form for a port.
func (e Entry) names(key string) bool {
	if e.PortForm != "" {
		if suffix, ok := strings.CutPrefix(key, e.Key+"."); ok && suffix != "" {
			return true
		}
	}
	return slices.ContainsFunc(append([]string{e.Key}, e.Aliases...), func(name string) bool {
		return name == key || catalog.InFamily(name, key)
	})
}

// Nearest returns the key of the catalogs, or the id of a finding, that a word was probably meant to be; empty if none is near.
func Nearest(names []string, word string) string {
	var candidates []string
	for _, name := range names {
		for _, e := range Entries(name) {
			candidates = append(append(candidates, e.Key), e.Aliases...)
		}
	}
	for _, f := range Findings() {
		candidates = append(candidates, f.ID)
	}
	suggestion, ok := annotation.Suggest(word, candidates)
	if !ok {
		return ""
	}
	return suggestion
}
