package export

import (
	"slices"

	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
)

// kind is the type that an annotation has on some Services.
type kind struct {
	*annotation.Type
	outcome     catalog.Outcome
	consequence string
	// unless are the conditions of the kinds that come before; then it is those of its own.
	unless [][]catalog.Condition
	when   []catalog.Condition
}

// kinds are the types of an annotation: its variants, and the one that it has elsewhere.
func kinds(a *catalog.Annotation) []kind {
	var all []kind
	var before [][]catalog.Condition
	for i := range a.Variants {
		v := &a.Variants[i]
		all = append(all, kind{&v.Type, v.OnInvalid, v.Consequence, before, v.If})
		before = append(slices.Clip(before), v.If)
	}
	return append(all, kind{&a.Type, a.OnInvalid, a.Consequence, before, nil})
}

func (k kind) severity(a *catalog.Annotation) finding.Severity {
	if a.Severity != "" {
		return a.Severity
	}
	return k.outcome.Severity()
}

func (k kind) message(a *catalog.Annotation) string {
	message := "must be " + k.Expected()
	if k.consequence != "" {
		message += " (" + k.consequence + ")"
	}
	if a.Remedy != "" {
		message += "; " + a.Remedy
	}
	return message
}

// on is true for the values of v that are of the kind, and for all values where the annotation is of another one.
func (e entries) on(k kind, s scope, v string) (string, error) {
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
