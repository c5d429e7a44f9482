package export

import (
	"strconv"
	"strings"
)

// and joins two expressions. It leaves out one that is always true.
func and(a, b string) string {
	switch {
	case a == "true" || a == "":
		return b
	case b == "true" || b == "":
		return a
	}
	return a + " && " + b
}

// or joins two expressions. It leaves out one that is always false.
func or(a, b string) string {
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

func not(a string) string {
	if a == "true" {
		return "false"
	}
	return "!(" + a + ")"
}

func in(v string, list []string) string {
	var quoted []string
	for _, word := range list {
		quoted = append(quoted, quote(word))
	}
	return v + " in [" + strings.Join(quoted, ", ") + "]"
}

// matches returns whether the whole text matches a pattern in RE2 syntax.
func matches(v, pattern string) string { return v + ".matches(" + quote("^(?:"+pattern+")$") + ")" }

// quote returns a string literal of CEL, which has the same escapes as Go.
func quote(s string) string {
	if !strings.ContainsAny(s, `'\`) && strconv.Quote(s) == `"`+s+`"` {
		return "'" + s + "'"
	}
	return strconv.Quote(s)
}
