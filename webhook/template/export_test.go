package template

import (
	"io"

	engine "quaymaster.dev/internal/rules/template"
	"quaymaster.dev/webhook/stream"
)

// Decoded returns the annotations that are kept of an object, by their paths, and whether some were left out.
func Decoded(templates []engine.Template, text io.Reader) (annotations map[string]map[string]string, cut bool, err error) {
	d := &decodable{kinds: pathsOf(templates)}
	err = stream.Read(stream.Input{Reader: text}, d)
	return d.object.annotations, d.object.cut, err
}
