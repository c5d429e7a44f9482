package annotation

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// Nearest is the candidate that name was probably meant to be. It compares by edit distance, blind to case and to _ for -,
// and counts a forgotten leading part (maxqps for listener-maxqps) as a single slip. Ties go to the candidate that
// is nearer as a whole, then to the first.
func Nearest(name string, candidates []string) string {
	type score struct{ slips, whole int }
	var best string
	var least score
	name = fold(name)
	for i, candidate := range candidates {
		folded := fold(candidate)
		s := score{whole: levenshtein.ComputeDistance(name, folded)}
		s.slips = s.whole
		for tail, rest, left := folded, "", 1; ; left++ {
			var found bool
			if _, rest, found = strings.Cut(tail, "-"); !found {
				break
			}
			tail = rest
			s.slips = min(s.slips, left+levenshtein.ComputeDistance(name, tail))
		}
		if i == 0 || s.slips < least.slips || s.slips == least.slips && s.whole < least.whole {
			best, least = candidate, s
		}
	}
	return best
}

func fold(s string) string { return strings.ReplaceAll(strings.ToLower(s), "_", "-") }
