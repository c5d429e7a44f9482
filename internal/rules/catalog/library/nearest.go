package library

import (
	"slices"

	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library/meaning"
)

// Suggestion is the known key closest to an unknown one.
type Suggestion struct {
	Key string
	// Near is true if the unknown key probably means the known one.
	Near bool
	// Typo is true if it is probably a misspelling of it: no other key that a newer controller may know.
	Typo bool
	// Entry is what the key belongs to; nil if there is no known key.
	Entry *Entry
	// Distance is that of the two, see package meaning.
	Distance int
}

// names are the known keys under one prefix, without it.
type names struct {
	tails  []string
	owners map[string]*Entry
	*meaning.Vocabulary
}

func newNames(h document.Head, entries []*Entry) map[string]*names {
	all := map[string]*names{}
	add := func(prefix, tail string, e *Entry) {
		if all[prefix] == nil {
			all[prefix] = &names{owners: map[string]*Entry{}}
		}
		n := all[prefix]
		n.tails = append(n.tails, tail)
		n.owners[tail] = e
	}
	for _, e := range entries {
		for _, known := range e.Names() {
			prefix, tail := h.Split(known)
			add(prefix, tail, e)
		}
		// A key on other clouds may be written with any prefix of this one.
		for _, prefix := range slices.Concat([]string{""}, h.Prefixes, h.SharedPrefixes) {
			for _, word := range e.Also {
				add(prefix, word, e)
			}
		}
	}
	for _, n := range all {
		n.Vocabulary = meaning.NewVocabulary(n.tails)
	}
	return all
}

// Nearest returns the known key under the same prefix that is closest to an unknown one.
func (c *Catalog) Nearest(key string) Suggestion {
	prefix, rest := c.Split(key)
	known := c.contents().names()[prefix]
	if known == nil {
		return Suggestion{}
	}
	found, ok := known.Nearest(rest)
	if !ok {
		return Suggestion{}
	}
	e := known.owners[found.Name]
	s := Suggestion{Key: prefix + found.Name, Near: found.Near, Typo: found.Typo, Entry: e, Distance: found.Distance}
	if slices.Contains(e.Also, found.Name) {
		s.Key = e.Name
	}
	return s
}

// Suggest returns the known key that an unknown one probably means.
func (c *Catalog) Suggest(key string) (suggestion string, ok bool) {
	s := c.Nearest(key)
	return s.Key, s.Near
}
