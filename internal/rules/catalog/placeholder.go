package catalog

import (
	"errors"
	"regexp"
	"strings"

	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
)

// errPlaceholder is the error of a value that is not known before a template is rendered.
var errPlaceholder = errors.New("has a placeholder")

// placeholder matches the placeholders of Flux and envsubst, of Kustomize and OpenShift, of Chainsaw, of Helm and other
// templates, and those that docs use.
var placeholder = regexp.MustCompile(`\$\{[^{}]+\}|\$\([^()]+\)|\(\$[^()]+\)|\{\{.*\}\}|<[^<>]+>`)

func hasPlaceholder(value string) bool {
	return strings.ContainsAny(value, "${<") && placeholder.MatchString(value)
}

// placeholder returns the note that a value is not validated.
func (v *View) placeholder(s *Setting) finding.Finding {
	f := v.finding(s, library.IDPlaceholder, document.Ignored,
		"has the placeholder "+placeholder.FindString(s.Raw)+" and is not validated", "render the manifest first, to have it validated")
	f.Severity = finding.Note
	return f
}
