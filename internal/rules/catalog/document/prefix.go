package document

import "strings"

// Class reports whether the controller acts on Services of a loadBalancerClass; nil is none.
func (o Ownership) Class(class *string) bool {
	if o.AnyClass {
		return true
	}
	if class == nil {
		return o.NoClass
	}
	return MatchesAny(o.Classes, *class)
}

// MatchesAny reports whether a text matches one of the patterns, in which one * at the end stands for anything. Loops do
// not allocate: the function runs for every annotation of every Service.
func MatchesAny(patterns []string, text string) bool {
	for _, pattern := range patterns {
		if matches(pattern, text) {
			return true
		}
	}
	return false
}

func matches(pattern, text string) bool {
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

// LowerDomain returns a key with the part before the slash in lower case.
func LowerDomain(key string) string {
	domain, rest, _ := strings.Cut(key, "/")
	if lower := strings.ToLower(domain); lower != domain && rest != "" {
		return lower + "/" + rest
	}
	return key
}

// HasPrefix reports whether a key begins with one of the prefixes.
func HasPrefix(key string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}
