package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
)

// document is one of those in a file.
type document struct {
	text []byte
	// above is how many lines of the file stand before the text.
	above int
	json  bool
}

// split finds the documents of a file: YAML between lines of ---, or JSON values one after the other.
func split(data []byte) []document {
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	if start := bytes.TrimLeft(data, " \t\r\n"); len(start) > 0 && (start[0] == '{' || start[0] == '[') {
		if documents, ok := splitJSON(data); ok {
			return documents
		}
	}
	return splitYAML(data)
}

// splitYAML does so before parsing, so that a document that cannot be parsed takes none of the others with it. Three dashes at the
// start of a line end a document wherever they stand, even inside text.
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
		// Blanks take the place of what is left of the value, so that columns stay.
		text := append(bytes.Repeat([]byte(" "), start-line), value...)
		documents = append(documents, document{text: text, above: bytes.Count(data[:line], []byte("\n")), json: true})
	}
}

// surrogate is half of a character as JSON writes it, and YAML cannot.
var surrogate = regexp.MustCompile(`\\u[dD][89a-fA-F][0-9a-fA-F]{2}`)

// positioned is the text as it is parsed for the sake of positions, which something else of the same length leaves as they are.
func (d document) positioned() []byte {
	if d.json {
		return surrogate.ReplaceAllLiteral(d.text, []byte(`\uFFFD`))
	}
	return d.text
}

// blank tells whether there is nothing but comments and directives.
func (d document) blank() bool {
	for line := range bytes.Lines(d.text) {
		rest := bytes.TrimSpace(bytes.TrimPrefix(line, []byte("---")))
		if len(rest) > 0 && rest[0] != '#' && rest[0] != '%' && !bytes.Equal(rest, []byte("...")) {
			return false
		}
	}
	return true
}
