package library

import (
	"slices"
	"strings"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/document"
)

// Suggestion is the known key closest to an unknown one.
type Suggestion struct {
	Key string
	// Near is true if the unknown key is probably a typo of it.
	Near bool

	// Entry is what the key belongs to; nil if there is no known key.
	Entry *Entry
	// Typos is the distance between the two.
	Typos int
}

// names are the known keys under one prefix, without it.
type names struct {
	tails  []string
	owners map[string]*Entry
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
	return all
}

// Nearest returns the known key under the same prefix that is closest to an unknown one.
func (c *Catalog) Nearest(key string) Suggestion {
	prefix, rest := c.Split(key)
	known := c.contents().names()[prefix]
	if known == nil {
		return Suggestion{}
	}
	text := rest
	if c.contents().PortForms {
		text = strings.ReplaceAll(rest, ".", "-")
	}
	tail, typos := annotation.Nearest(text, known.tails)
	e := known.owners[tail]
	s := Suggestion{Key: prefix + tail, Near: annotation.Near(rest, typos), Entry: e, Typos: typos}
	if e != nil && slices.Contains(e.Also, tail) {
		s.Key = e.Name
	}
	return s
}

// Suggest returns the known key that an unknown one is probably a typo of.
func (c *Catalog) Suggest(key string) (suggestion string, ok bool) {
	s := c.Nearest(key)
	return s.Key, s.Near
}
