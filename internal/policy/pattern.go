package policy

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

const (
	// longestPattern is how many steps a pattern may have. The time of a match grows with them, and the memory of the pattern:
	// (x*){1000} ninety times over would keep a webhook busy for minutes.
	longestPattern = 2000
	// longestMatched is how many bytes of a value a pattern is asked about, for the same reason. Every good value of the DLB is
	// shorter, but for lists that nobody writes.
	longestMatched = 8192
)

// newPattern reads a regular expression that is cheap enough to be asked about every Service.
func newPattern(text string) (*regexp.Regexp, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	if n := steps(parsed); n > longestPattern {
		return nil, fmt.Errorf("it has %d steps with all its repetitions, and at most %d are allowed", n, longestPattern)
	}
	return regexp.Compile(text)
}

// steps is how long an expression is when its repetitions are written out. No count exceeds a thousand: the parser sees to that.
func steps(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n += steps(sub)
	}
	switch re.Op {
	case syntax.OpRepeat:
		return n * max(re.Min, re.Max, 1)
	case syntax.OpLiteral:
		return n + len(re.Rune)
	default:
		return n + 1
	}
}
