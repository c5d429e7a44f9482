package check

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

var openStackFuncs = map[string]Func{
	"openstack-subnet": {
		Help:  "The text after ~ is a regular expression; without ~, brackets and braces of the pattern are closed.",
		Check: openStackSubnet,
	},
}

func openStackSubnet(s Subject) string {
	pattern := strings.TrimPrefix(s.Value.Text, "!")
	expression, found := strings.CutPrefix(pattern, "~")
	if !found {
		if _, err := regexp.Compile(openStackGlob(pattern)); err != nil {
			return "be a pattern with closed brackets and braces, without which the controller crashes"
		}
		return ""
	}
	if _, err := regexp.Compile(expression); err != nil {
		return "have a valid regular expression after ~: " + err.Error()
	}
	return ""
}

// openStackGlob returns an expression that is valid if the one is to which the controller converts a pattern: braces make
// groups, brackets stay as they are, and most of what has a meaning in expressions is escaped.
func openStackGlob(pattern string) string {
	var b strings.Builder
	inGroup := false
	for rest := pattern; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		next := rest[size:]
		switch {
		case strings.ContainsRune(`\$^+.()=!|`, r):
			b.WriteString(`\` + string(r))
		case r == '?':
			b.WriteByte('.')
		case r == '{' && strings.HasPrefix(next, "{"):
			b.WriteString(`\{`)
			next = next[1:]
		case r == '{':
			b.WriteByte('(')
			inGroup = true
		case r == '}' && inGroup:
			b.WriteByte(')')
			inGroup = false
		case r == ',' && inGroup:
			b.WriteByte('|')
		case r == ',':
			b.WriteString(`\,`)
		case r == '*':
			b.WriteString("[^/]*")
		default:
			b.WriteRune(r)
		}
		rest = next
	}
	return b.String()
}
