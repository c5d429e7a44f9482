package manifest

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// Comment is a comment of a YAML file.
type Comment struct {
	// Line and Column are its position, from 1.
	Line, Column int
	// Of is the line that it is about: its own, if something precedes it there, otherwise the next one that is neither
	// blank nor a comment.
	Of int
	// Text is everything after the #, without spaces around it.
	Text string
}

// Comments returns the comments of the file whose text begins with a word.
func (f *File) Comments(word string) []Comment {
	contains := func(line []byte) bool { return bytes.Contains(line, []byte(word)) }
	if f.source == nil || !slices.ContainsFunc(f.source.lines, contains) {
		return nil
	}
	var all []Comment
	for i, line := range f.source.withoutScalars() {
		at := startOfComment(line, word)
		if at < 0 {
			continue
		}
		c := Comment{
			Line: i + 1, Of: i + 1, Column: utf8.RuneCount(line[:at]) + 1,
			Text: string(bytes.TrimSpace(line[at+1:])),
		}
		if len(bytes.TrimSpace(line[:at])) == 0 {
			next := slices.IndexFunc(f.source.lines[i:], func(line []byte) bool {
				text := bytes.TrimSpace(line)
				return len(text) > 0 && text[0] != '#'
			})
			c.Of = i + max(next, 0) + 1
		}
		all = append(all, c)
	}
	return all
}

// startOfComment returns the index of the # of a comment that begins with a word, or -1. As in YAML, it is the first
// character of the line, or follows a space.
func startOfComment(line []byte, word string) int {
	for at, c := range line {
		starts := c == '#' && (at == 0 || line[at-1] == ' ' || line[at-1] == '\t')
		if starts && strings.HasPrefix(strings.TrimLeft(string(line[at+1:]), " \t"), word) {
			return at
		}
	}
	return -1
}

// Line returns the place of the line with a number, marked from a column on.
func (f *File) Line(line, column int) Place {
	p := Place{Line: line, Column: column, Mark: column, Width: 1, KeyWidth: 1}
	if f.source != nil && line >= 1 && line <= len(f.source.lines) {
		p.Text = strings.TrimRight(string(f.source.lines[line-1]), "\r")
		p.Width = max(1, utf8.RuneCountInString(p.Text)-column+1)
		p.KeyWidth = p.Width
	}
	return p
}
