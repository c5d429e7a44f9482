// Package wrap breaks texts for people into lines that fit a terminal.
package wrap

import (
	"strings"
	"unicode/utf8"
)

// Width is the width that every terminal has.
const Width = 80

// Text breaks a text that begins in a column of its line between words, and continues it in the column next. Words, such
// as keys, are never broken, so that they can be copied.
func Text(text string, column, next, width int) string {
	var b strings.Builder
	at := column
	for i, word := range strings.Fields(text) {
		length := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+length > width:
			b.WriteString("\n" + strings.Repeat(" ", next))
			at = next
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += length
	}
	return b.String()
}

// Paragraphs breaks the paragraphs of a text, which blank lines separate. Lines that are indented stay as they are.
func Paragraphs(text string, width int) string {
	var lines, paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			lines = append(lines, Text(strings.Join(paragraph, " "), 0, 0, width))
		}
		paragraph = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, " ") {
			end()
			lines = append(lines, line)
			continue
		}
		paragraph = append(paragraph, line)
	}
	end()
	return strings.Join(lines, "\n")
}
