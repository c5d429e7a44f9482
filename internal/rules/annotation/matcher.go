package annotation

import (
	"unicode"
	"unicode/utf8"
)

// wordBits is the number of characters of the longest name whose row fits in a word.
const wordBits = 64

// matcher computes the edit distances between one name and many others, in a few operations for each of their
// characters: it holds a whole row of differences in a machine word (Myers, "A fast bit-vector algorithm for approximate
// string matching based on dynamic programming", 1999). It reads names from their end, so that the distances of all
// their tails are intermediate results.
type matcher struct {
	name   string
	length int
	// ascii and others hold for each character its positions in the name, counted from the end.
	ascii  [utf8.RuneSelf]uint64
	others map[rune]uint64
}

// newMatcher returns the matcher of a folded name.
func newMatcher(name string) matcher {
	m := matcher{name: name}
	for name != "" {
		r, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
		bit := uint64(1) << m.length
		switch {
		case r < utf8.RuneSelf:
			m.ascii[r] |= bit
		default:
			if m.others == nil {
				m.others = map[rune]uint64{}
			}
			m.others[r] |= bit
		}
		m.length++
	}
	return m
}

// distances returns the number of typos between the name and a candidate, as for Nearest, and the edit distance of the
// complete name.
func (m *matcher) distances(candidate string) (typos, whole int) {
	if m.length > wordBits {
		return longDistances(m.name, candidate)
	}
	left := 0
	for i := range len(candidate) {
		if candidate[i] == '-' || candidate[i] == '_' {
			left++
		}
	}
	typos = left + m.length + len(candidate) // more than any
	distance, last := m.length, uint64(1)<<max(m.length-1, 0)
	rises, falls := ^uint64(0), uint64(0) // where the distance rises or falls from one character of the name to the next
	for rest := candidate; rest != ""; {
		r, size := utf8.DecodeLastRuneInString(rest)
		rest = rest[:len(rest)-size]
		r = foldRune(r)
		if r == '-' {
			typos = min(typos, left+distance)
			left--
		}
		equal := m.positions(r)
		diagonal := (((equal & rises) + rises) ^ rises) | equal
		up, down := falls|^(diagonal|rises), rises&diagonal
		switch {
		case m.length == 0 || up&last != 0:
			distance++
		case down&last != 0:
			distance--
		}
		up, down = up<<1|1, down<<1
		vertical := equal | falls
		rises, falls = down|^(vertical|up), up&vertical
	}
	return min(typos, distance), distance
}

func (m *matcher) positions(r rune) uint64 {
	if r < utf8.RuneSelf {
		return m.ascii[r]
	}
	return m.others[r]
}

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
