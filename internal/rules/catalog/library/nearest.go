package library

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

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
	// Displaced is true if only the domain differs.
	Displaced bool
}

// names are the known keys under one prefix or domain, without it.
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
			if domain, tail, _ := strings.Cut(known, "/"); prefix != domain+"/" {
				add(domain+"/", tail, e)
			}
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

// Nearest returns the known key that is closest to an unknown one: the same under another domain, or else the closest
// one under the same prefix. If none is near, a misspelled prefix is the last possibility.
func (c *Catalog) Nearest(key string) Suggestion {
	if s, found := c.Displaced(key); found {
		return s
	}
	prefix, rest := c.Split(key)
	s := c.nearestUnder(prefix, rest)
	if domain, rest, _ := strings.Cut(key, "/"); !s.Near && prefix != domain+"/" {
		if whole := c.nearestUnder(domain+"/", rest); whole.Typo {
			return whole
		}
	}
	return s
}

func (c *Catalog) nearestUnder(prefix, rest string) Suggestion {
	known := c.contents().names()[prefix]
	if known == nil {
		return Suggestion{}
	}
	found, ok := known.Nearest(rest)
	if !ok {
		return Suggestion{}
	}
	e := known.owners[found.Name]
	s := Suggestion{Key: withPort(prefix+found.Name, rest), Near: found.Near, Typo: found.Typo, Entry: e, Distance: found.Distance}
	if slices.Contains(e.Also, found.Name) {
		s.Key = e.Name
	}
	return s
}

// withPort puts the only number of an unknown key in the place of the port that a known one has.
func withPort(known, unknown string) string {
	const port = "{port}"
	numbers := strings.FieldsFunc(unknown, func(r rune) bool { return r < '0' || r > '9' })
	if strings.Count(known, "{") != 1 || !strings.Contains(known, port) || len(numbers) != 1 {
		return known
	}
	return strings.Replace(known, port, numbers[0], 1)
}

// Displaced returns the known key that differs from a key only in the domain, the part before the slash. If the key has
// no prefix of the catalog, the domains must be akin; those of Ingresses by a first label that names the controller,
// because controllers of Ingresses have the same names of settings.
func (c *Catalog) Displaced(key string) (Suggestion, bool) {
	domain, tail, cut := strings.Cut(key, "/")
	concerns := c.Concerns(key)
	if c.Own || !cut || c.IsElsewhere(key) || len(domain) > validation.DNS1123SubdomainMaxLength || !concerns && !c.mayBeDisplaced(domain) {
		return Suggestion{}, false
	}
	for _, known := range c.contents().tails()[tail] {
		other, _, _ := strings.Cut(known.key, "/")
		if other != domain && (concerns || len(c.Prefixes) > 0 || akin(domain, other)) {
			return Suggestion{Key: known.suggested, Near: true, Entry: known.entry, Distance: 1, Displaced: true}, true
		}
	}
	return Suggestion{}, false
}

// mayBeDisplaced reports whether a domain is akin to one of the prefixes. It does not need the contents of the catalog.
func (c *Catalog) mayBeDisplaced(domain string) bool {
	like := func(prefix string) bool {
		other, _, _ := strings.Cut(prefix, "/")
		if len(c.Kinds) > 0 {
			return sameName(withoutLast(domain), withoutLast(other))
		}
		return akin(domain, other)
	}
	return slices.ContainsFunc(c.Prefixes, like) || slices.ContainsFunc(c.SharedPrefixes, like)
}

// generic are labels of domains that do not name a controller. Two of them do.
var generic = []string{
	"alpha", "beta", "io", "service", "load-balancer", "ingress", "kubernetes", "k8s", "networking", "network", "cloud", "annotations",
}

// akin reports whether every label of one domain is one of the other, except for the last label of both, such as com, or
// the first label of both is the same. Hyphens do not count, and neither does a generic label alone.
func akin(a, b string) bool {
	a, b = withoutLast(a), withoutLast(b)
	if sameName(a, b) {
		return true
	}
	if len(a) > len(b) {
		a, b = b, a
	}
	if a == "" {
		return false
	}
	if isGeneric(a) {
		return false
	}
	for label := range strings.SplitSeq(a, ".") {
		if !hasLabel(b, label) {
			return false
		}
	}
	return true
}

// sameName reports whether the first label of two domains is the same, and names a controller.
func sameName(a, b string) bool {
	first, _, _ := strings.Cut(a, ".")
	other, _, _ := strings.Cut(b, ".")
	return first != "" && sameWithoutHyphens(first, other) && !isGeneric(first)
}

func isGeneric(label string) bool {
	return slices.ContainsFunc(generic, func(g string) bool { return sameWithoutHyphens(label, g) })
}

func withoutLast(domain string) string { return domain[:max(0, strings.LastIndexByte(domain, '.'))] }

func hasLabel(domain, label string) bool {
	for other := range strings.SplitSeq(domain, ".") {
		if sameWithoutHyphens(other, label) {
			return true
		}
	}
	return false
}

func sameWithoutHyphens(a, b string) bool {
	for {
		a, b = strings.TrimLeft(a, "-"), strings.TrimLeft(b, "-")
		if a == "" || b == "" || a[0] != b[0] {
			return a == b
		}
		a, b = a[1:], b[1:]
	}
}

// tail is a known key by its part after the slash.
type tail struct {
	key, suggested string
	entry          *Entry
}

func newTails(entries []*Entry) map[string][]tail {
	all := map[string][]tail{}
	for _, e := range entries {
		if e.Family() {
			continue
		}
		for _, key := range e.Names() {
			_, rest, _ := strings.Cut(key, "/")
			suggested := key
			if e.AliasesDeprecated {
				suggested = e.Name
			}
			all[rest] = append(all[rest], tail{key, suggested, e})
		}
	}
	return all
}

// Suggest returns the known key that an unknown one probably means.
func (c *Catalog) Suggest(key string) (suggestion string, ok bool) {
	s := c.Nearest(key)
	return s.Key, s.Near
}
