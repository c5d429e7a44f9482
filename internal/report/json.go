package report

import (
	"encoding/json"
	"io"
)

// JSON writes the form for programs.
func JSON(w io.Writer, results []Result) error {
	if results == nil {
		results = []Result{}
	}
	return Encode(w, struct {
		Results []Result `json:"results"`
	}{results})
}

// Encode writes JSON for people, too: indented, and without escapes of <, > and &.
func Encode(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
