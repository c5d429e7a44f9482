// Package cel writes expressions in the Common Expression Language of the API server.
package cel

import (
	"strconv"
	"strings"
)

// And joins two expressions. It leaves out one that is always true.
func And(a, b string) string {
	switch {
	case a == "true" || a == "":
		return b
	case b == "true" || b == "":
		return a
	}
	return a + " && " + b
}

// Or joins two expressions. It leaves out one that is always false.
func Or(a, b string) string {
	switch {
	case a == "true" || b == "true":
		return "true"
	case a == "false":
		return b
	case b == "false":
		return a
	}
	return "(" + a + " || " + b + ")"
}

// Not negates an expression.
func Not(a string) string {
	if a == "true" {
		return "false"
	}
	return "!(" + a + ")"
}

// In returns whether a value is one of the words.
func In(v string, list []string) string {
	var quoted []string
	for _, word := range list {
		quoted = append(quoted, Quote(word))
	}
	return v + " in [" + strings.Join(quoted, ", ") + "]"
}

// Matches returns whether the whole text matches a pattern in RE2 syntax.
func Matches(v, pattern string) string { return v + ".matches(" + Quote("^(?:"+pattern+")$") + ")" }

// Quote returns a string literal of CEL, which has the same escapes as Go.
func Quote(s string) string {
	if !strings.ContainsAny(s, `'\`) && strconv.Quote(s) == `"`+s+`"` {
		return "'" + s + "'"
	}
	return strconv.Quote(s)
}
