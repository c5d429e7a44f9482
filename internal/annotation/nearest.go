package annotation

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// Suggest returns the candidate that name was probably meant to be, if one is near enough: one typo away, or one in four
// letters.
func Suggest(name string, candidates []string) (suggestion string, ok bool) {
	if len(candidates) == 0 {
		return "", false
	}
	nearest, typos := Nearest(name, candidates)
	return nearest, Near(name, typos)
}

// Nearest returns the candidate that is nearest to name, and how many typos separate them. It ignores case, treats _ as -, and
// counts a missing leading part (maxqps for listener-maxqps) as one typo. Ties go to the candidate that is nearer as a whole,
// then to the first.
func Nearest(name string, candidates []string) (best string, typos int) {
	name = fold(name)
	least := -1
	for _, candidate := range candidates {
		folded := fold(candidate)
		whole := levenshtein.ComputeDistance(name, folded)
		distance := whole
		left := 1
		for _, tail, found := strings.Cut(folded, "-"); found; _, tail, found = strings.Cut(tail, "-") {
			distance = min(distance, left+levenshtein.ComputeDistance(name, tail))
			left++
		}
		if least < 0 || distance < typos || distance == typos && whole < least {
			best, typos, least = candidate, distance, whole
		}
	}
	return best, typos
}

// Near reports whether a name with so many typos was probably meant.
func Near(name string, typos int) bool { return typos <= max(1, len(name)/4) }

func fold(s string) string { return strings.ReplaceAll(strings.ToLower(s), "_", "-") }
