package export

import (
	"strconv"
	"strings"
)

// and and or leave out what is always true.
func and(a, b string) string {
	switch {
	case a == "true" || a == "":
		return b
	case b == "true" || b == "":
		return a
	}
	return a + " && " + b
}

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

// matches compares with a whole pattern of the RE2 syntax.
func matches(v, pattern string) string { return v + ".matches(" + quote("^(?:"+pattern+")$") + ")" }

// quote writes a string as CEL does, whose escapes are those of Go.
func quote(s string) string {
	if !strings.ContainsAny(s, `'\`) && strconv.Quote(s) == `"`+s+`"` {
		return "'" + s + "'"
	}
	return strconv.Quote(s)
}
