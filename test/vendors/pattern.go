package vendors

import (
	"regexp/syntax"
	"strings"
)

// matching returns a text that matches a regular expression.
func (m *maker) matching(pattern string) string {
	expression, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return ""
	}
	var text strings.Builder
	m.write(&text, expression.Simplify())
	return text.String()
}

// repeats is how often an expression without an upper limit is repeated at most.
const repeats = 6

func (m *maker) write(text *strings.Builder, e *syntax.Regexp) {
	switch e.Op {
	case syntax.OpLiteral:
		text.WriteString(string(e.Rune))
	case syntax.OpCharClass:
		at := m.r.IntN(len(e.Rune)/2) * 2
		text.WriteRune(e.Rune[at] + m.r.Int32N(min(e.Rune[at+1]-e.Rune[at], 90)+1))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		text.WriteByte("az09-_."[m.r.IntN(7)])
	case syntax.OpConcat, syntax.OpCapture:
		for _, sub := range e.Sub {
			m.write(text, sub)
		}
	case syntax.OpAlternate:
		m.write(text, e.Sub[m.r.IntN(len(e.Sub))])
	case syntax.OpQuest, syntax.OpStar, syntax.OpPlus, syntax.OpRepeat:
		low, high := bounds(e)
		for range low + m.r.IntN(high-low+1) {
			m.write(text, e.Sub[0])
		}
	default: // anchors
	}
}

func bounds(e *syntax.Regexp) (low, high int) {
	switch e.Op { //nolint:exhaustive // no other is repeated
	case syntax.OpQuest:
		return 0, 1
	case syntax.OpStar:
		return 0, repeats
	case syntax.OpPlus:
		return 1, repeats
	}
	if e.Max < 0 {
		return e.Min, e.Min + repeats
	}
	return e.Min, e.Max
}
