// Package visible prepares texts of others for where they are shown.
package visible

import (
	"fmt"
	"strings"
	"unicode"
)

// Text returns a text with every character visible: those without a shape, and those that change the direction of the text
// around them, are shown by their numbers. It does not escape what is special in HTML.
func Text(text string) string {
	var b strings.Builder
	for _, r := range text {
		if hidden(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Cut returns at most the first n bytes of a text, without half a character at the end.
func Cut(text string, n int) string {
	if len(text) > n {
		return strings.ToValidUTF8(text[:n], "")
	}
	return text
}

// Shorten returns a text with at most n bytes, or the first n bytes followed by an ellipsis.
func Shorten(text string, n int) string {
	if len(text) > n {
		return Cut(text, n) + "…"
	}
	return text
}

func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) || r == unicode.ReplacementChar
}
