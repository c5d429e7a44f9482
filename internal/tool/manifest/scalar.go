package manifest

import (
	"bytes"
	"unicode/utf8"

	yamlnode "go.yaml.in/yaml/v3" //nolint:depguard // as in parse.go
)

// withoutScalars returns the lines of the file with each # in a quoted or block scalar replaced: it begins no comment.
func (s *source) withoutScalars() [][]byte {
	data := bytes.Join(s.lines, []byte("\n"))
	for _, d := range split(data) {
		var root yamlnode.Node
		switch {
		case d.json: // which has no comments
			return make([][]byte, len(s.lines))
		case yamlnode.Unmarshal(d.text, &root) == nil:
			d.hide(&root, starts(d.text))
		}
	}
	return bytes.Split(data, []byte("\n"))
}

// starts returns the indexes where lines begin.
func starts(text []byte) []int {
	all := []int{0}
	for i, c := range text {
		if c == '\n' {
			all = append(all, i+1)
		}
	}
	return all
}

// hide replaces each # in the scalars of a node.
func (d document) hide(node *yamlnode.Node, lines []int) {
	for _, child := range node.Content {
		d.hide(child, lines)
	}
	if node.Kind != yamlnode.ScalarNode || node.Line < 1 || node.Line > len(lines) {
		return
	}
	at := lines[node.Line-1]
	for range node.Column - 1 {
		_, size := utf8.DecodeRune(d.text[at:])
		at += size
	}
	scalar := d.text[at:] // begins with the tag and the anchor, if there are any
	end := 0
	switch {
	case node.Style&yamlnode.DoubleQuotedStyle != 0:
		end = endOfQuoted(scalar, '"', '\\')
	case node.Style&yamlnode.SingleQuotedStyle != 0:
		end = endOfQuoted(scalar, '\'', '\'')
	case node.Style&(yamlnode.LiteralStyle|yamlnode.FoldedStyle) != 0:
		header := bytes.IndexByte(scalar, '\n') + 1 // which may end with a comment
		scalar = scalar[header:]
		end = endOfBlock(scalar, node.Value)
	}
	for i, c := range scalar[:end] {
		if c == '#' {
			scalar[i] = '.'
		}
	}
}

// endOfQuoted returns the index after a quoted scalar, in which the character escape begins an escaped one.
func endOfQuoted(text []byte, quote, escape byte) int {
	for i := bytes.IndexByte(text, quote) + 1; i < len(text); i++ {
		switch {
		case text[i] == escape && (escape != quote || i+1 < len(text) && text[i+1] == quote):
			i++
		case text[i] == quote:
			return i
		}
	}
	return len(text)
}

// endOfBlock returns the index after the lines of a block scalar, which are indented as the first one that is not blank.
// In the value, that line has only the spaces that are no indentation.
func endOfBlock(text []byte, value string) int {
	first := bytes.TrimLeft([]byte(value), "\n")
	indent, end := -1, 0
	for line := range bytes.Lines(text) {
		if len(bytes.TrimSpace(line)) > 0 {
			if indent < 0 {
				indent = spaces(line) - spaces(first)
			}
			if spaces(line) < indent || len(bytes.TrimSpace(first)) == 0 {
				break
			}
		}
		end += len(line)
	}
	return end
}

func spaces(line []byte) int { return len(line) - len(bytes.TrimLeft(line, " ")) }
