package document

import (
	"slices"
	"strings"
)

// Class reports whether the controller acts on Services of a loadBalancerClass; nil is none.
func (o Ownership) Class(class *string) bool {
	if o.AnyClass {
		return true
	}
	if class == nil {
		return o.NoClass
	}
	return slices.ContainsFunc(o.Classes, func(pattern string) bool { return Matches(pattern, *class) })
}

// Matches reports whether a text matches a pattern, in which one * at the end stands for anything.
func Matches(pattern, text string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(text, prefix)
	}
	return pattern == text
}

// Split splits a key after the longest matching prefix of the catalog.
func (h *Head) Split(key string) (prefix, rest string) {
	for _, list := range [][]string{h.Prefixes, h.SharedPrefixes} {
		for _, p := range list {
			if strings.HasPrefix(key, p) && len(p) > len(prefix) {
				prefix = p
			}
		}
	}
	return prefix, key[len(prefix):]
}

// HasPrefix reports whether a key begins with one of the prefixes.
func HasPrefix(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}
