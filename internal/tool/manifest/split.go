package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
)

// document is one document of a file.
type document struct {
	text []byte
	// above is the number of lines in the file before the text.
	above int
	json  bool
}

// split splits a file into documents: YAML separated by lines of ---, or consecutive JSON values.
func split(data []byte) []document {
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	if start := bytes.TrimLeft(data, " \t\r\n"); len(start) > 0 && (start[0] == '{' || start[0] == '[') {
		if documents, ok := splitJSON(data); ok {
			return documents
		}
	}
	return splitYAML(data)
}

// splitYAML splits before parsing, so that a document that cannot be parsed does not affect the others. Three dashes at
// the start of a line end a document everywhere, even inside a block of text.
func splitYAML(data []byte) []document {
	var documents []document
	start, above, line := 0, 0, 0
	for at := 0; at < len(data); line++ {
		end := len(data)
		if newline := bytes.IndexByte(data[at:], '\n'); newline >= 0 {
			end = at + newline + 1
		}
		if at > start && separates(data[at:end]) {
			documents = append(documents, document{text: data[start:at], above: above})
			start, above = at, line
		}
		at = end
	}
	return append(documents, document{text: data[start:], above: above})
}

func separates(line []byte) bool {
	rest, dashes := bytes.CutPrefix(line, []byte("---"))
	return dashes && (len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n"))
}

func splitJSON(data []byte) ([]document, bool) {
	var documents []document
	for decoder := json.NewDecoder(bytes.NewReader(data)); ; {
		var value json.RawMessage
		if err := decoder.Decode(&value); errors.Is(err, io.EOF) {
			return documents, true
		} else if err != nil {
			return nil, false
		}
		end := int(decoder.InputOffset())
		start := end - len(value)
		line := bytes.LastIndexByte(data[:start], '\n') + 1
		// Spaces replace everything before the value, so that columns do not change.
		text := append(bytes.Repeat([]byte(" "), start-line), value...)
		documents = append(documents, document{text: text, above: bytes.Count(data[:line], []byte("\n")), json: true})
	}
}

// surrogate matches the escape of half a character, which JSON allows and YAML does not.
var surrogate = regexp.MustCompile(`\\u[dD][89a-fA-F][0-9a-fA-F]{2}`)

// positioned returns the text that is parsed to find positions. Replacements have the same length, so that positions do
// not change.
func (d document) positioned() []byte {
	if d.json {
		return surrogate.ReplaceAllLiteral(d.text, []byte(`\uFFFD`))
	}
	return d.text
}

// blank reports whether the document contains only comments and directives.
func (d document) blank() bool {
	for line := range bytes.Lines(d.text) {
		rest := bytes.TrimSpace(bytes.TrimPrefix(line, []byte("---")))
		if len(rest) > 0 && rest[0] != '#' && rest[0] != '%' && !bytes.Equal(rest, []byte("...")) {
			return false
		}
	}
	return true
}
