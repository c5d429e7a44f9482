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
	return encode(w, struct {
		Results []Result `json:"results"`
	}{results})
}

func encode(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
