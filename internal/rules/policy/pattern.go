package policy

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

const (
	// maxSteps limits the steps of a pattern, because the time of a match and the memory of the pattern grow with them:
	// matching (x*){1000} repeated ninety times would keep a webhook busy for minutes.
	maxSteps = 2000
	// maxPatternBytes is what the API server accepts, too.
	maxPatternBytes = 1024
	// maxMatched limits the bytes of a value that patterns match, for the same reason. Every valid value of the DLB is
	// shorter, except for unrealistic lists.
	maxMatched = 8192
)

// pattern is a regular expression, and the number of its steps.
type pattern struct {
	*regexp.Regexp
	steps int
}

// newPattern compiles a regular expression that is cheap enough to match every Service.
func newPattern(text string) (*pattern, error) {
	n, err := countSteps(text)
	if err != nil {
		return nil, err
	}
	compiled, err := regexp.Compile(text)
	return &pattern{compiled, n}, err
}

// countSteps returns the number of steps of an expression, without the memory that compiling it takes.
func countSteps(text string) (int, error) {
	if len(text) > maxPatternBytes {
		return 0, fmt.Errorf("it has %d bytes, and at most %d are allowed", len(text), maxPatternBytes)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, err
	}
	n := steps(parsed)
	if n > maxSteps {
		return 0, fmt.Errorf("it has %d steps with all its repetitions, and at most %d are allowed", n, maxSteps)
	}
	return n, nil
}

// steps returns the length of an expression after expanding its repetitions. The parser limits each count to 1000. The
// compiled expression has at most five times as many instructions.
func steps(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n += steps(sub)
	}
	switch re.Op {
	case syntax.OpRepeat:
		return n*max(re.Min, re.Max, 1) + 1
	case syntax.OpLiteral:
		return n + len(re.Rune)
	case syntax.OpCharClass:
		return n + max(1, len(re.Rune)/2) // its ranges; a class of Unicode has hundreds
	default:
		return n + 1
	}
}
