package annotation

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// Nearest is the candidate that name was probably meant to be, and how many slips of the keyboard lie between. It is blind
// to case and to _ for -, and counts a forgotten leading part (maxqps for listener-maxqps) as a single slip. Ties go to
// the candidate that is nearer as a whole, then to the first.
func Nearest(name string, candidates []string) (best string, slips int) {
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
		if least < 0 || distance < slips || distance == slips && whole < least {
			best, slips, least = candidate, distance, whole
		}
	}
	return best, slips
}

// Near tells whether so few slips make it likely that the name was meant: one, or one in four letters.
func Near(name string, slips int) bool { return slips <= max(1, len(name)/4) }

func fold(s string) string { return strings.ReplaceAll(strings.ToLower(s), "_", "-") }
