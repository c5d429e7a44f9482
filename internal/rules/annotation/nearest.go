package annotation

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

// maxNameBytes bounds the names that are compared.
const maxNameBytes = 128

// Suggest returns the candidate that name is probably a typo of. ok is false if none is close enough: at most one typo,
// or one typo in four letters.
func Suggest(name string, candidates []string) (suggestion string, ok bool) {
	if len(candidates) == 0 {
		return "", false
	}
	nearest, typos := Nearest(name, candidates)
	return nearest, Near(name, typos)
}

// Nearest returns the candidate closest to name and the number of typos between them. It ignores case, treats _ as -,
// and counts a missing leading part (maxqps for listener-maxqps) as one typo. Among equals, it prefers the candidate
// with the smallest edit distance of the complete name, then the first one. The time grows with the product of both
// lengths, so a name longer than any key has no nearest candidate.
func Nearest(name string, candidates []string) (best string, typos int) {
	if len(name) > maxNameBytes {
		return "", len(name)
	}
	name = fold(name)
	least := -1
	for _, candidate := range candidates {
		distance, whole := distances(name, fold(candidate))
		if least < 0 || distance < typos || distance == typos && whole < least {
			best, typos, least = candidate, distance, whole
		}
	}
	return best, typos
}

// distances returns the number of typos between two folded names, and their edit distance.
func distances(name, candidate string) (typos, whole int) {
	whole = levenshtein.ComputeDistance(name, candidate)
	typos = whole
	left := 1
	for _, tail, found := strings.Cut(candidate, "-"); found; _, tail, found = strings.Cut(tail, "-") {
		typos = min(typos, left+levenshtein.ComputeDistance(name, tail))
		left++
	}
	return typos, whole
}

// Near reports whether a name with this number of typos is close enough for a suggestion.
func Near(name string, typos int) bool { return typos <= max(1, len(name)/4) }

func fold(s string) string { return strings.Map(foldRune, s) }

// foldRune ignores case, and the difference between - and _.
func foldRune(r rune) rune {
	switch {
	case r == '_':
		return '-'
	case 'A' <= r && r <= 'Z':
		return r + 'a' - 'A'
	case r < utf8.RuneSelf:
		return r
	}
	return unicode.ToLower(r)
}
