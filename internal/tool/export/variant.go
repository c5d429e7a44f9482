package export

import (
	"slices"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/finding"
)

// kind is the type of an annotation on some Services.
type kind struct {
	*annotation.Type
	outcome     document.Outcome
	consequence string
	// unless holds the conditions of the preceding kinds, when those of this one.
	unless [][]document.Condition
	when   []document.Condition
}

// kinds returns the types of an annotation: those of its variants, and the one on all other Services.
func kinds(a *document.Annotation) []kind {
	var all []kind
	var preceding [][]document.Condition
	for i := range a.Variants {
		v := &a.Variants[i]
		all = append(all, kind{&v.Type, v.OnInvalid, v.Consequence, preceding, v.If})
		preceding = append(slices.Clip(preceding), v.If)
	}
	return append(all, kind{&a.Type, a.OnInvalid, a.Consequence, preceding, nil})
}

func (k kind) severity(a *document.Annotation) finding.Severity {
	if a.Severity != "" {
		return a.Severity
	}
	return k.outcome.Severity()
}

func (k kind) message(a *document.Annotation) string {
	message := "must be " + k.Expected()
	if k.consequence != "" {
		message += " (" + k.consequence + ")"
	}
	if a.Remedy != "" {
		message += "; " + a.Remedy
	}
	return message
}

// ofKind returns an expression that is true if v is valid for the kind, or if the annotation is of another kind.
func (e entries) ofKind(k kind, s scope, v string) (string, error) {
	holds, err := typeExpression(k.Type, v)
	if err != nil {
		return "", err
	}
	if k.when != nil {
		when, err := e.allOf(k.when, s)
		if err != nil {
			return "", err
		}
		holds = "!(" + when + ") || (" + holds + ")"
	}
	for _, list := range k.unless {
		unless, err := e.allOf(list, s)
		if err != nil {
			return "", err
		}
		holds = "(" + unless + ") || (" + holds + ")"
	}
	return holds, nil
}
