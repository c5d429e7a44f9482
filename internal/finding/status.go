package finding

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// longestValue is how many bytes of a bad value are shown; the user has the rest.
	longestValue = 128
	// mostCauses bounds an answer: nobody reads more, and an object may have as many problems as it has annotations.
	mostCauses = 100
)

// Errors are the findings that refuse the object.
func Errors(findings []Finding) []Finding {
	var errs []Finding
	for _, f := range findings {
		if f.Severity == Error {
			errs = append(errs, f)
		}
	}
	return errs
}

// Warnings are the texts of the findings that only warn, as kubectl shows them behind "Warning: ".
func Warnings(findings []Finding) []string {
	var texts []string
	for _, f := range findings {
		if f.Severity != Warning {
			continue
		}
		text := f.Field + ": " + f.body()
		if f.Old {
			text = "not refused because it was so before: " + text
		}
		texts = append(texts, text)
	}
	return texts
}

// InvalidStatus is the API's answer to an object with errors: 422 Invalid, one cause a finding, all of them in the message.
func InvalidStatus(kind schema.GroupKind, name string, findings []Finding) *metav1.Status {
	status := apierrors.NewInvalid(kind, name, fieldErrors(findings)).Status()
	return &status
}

// Summary is the text of all errors, for Events and conditions: the same that a refused kubectl apply prints.
func Summary(findings []Finding) string {
	if errs := fieldErrors(findings).ToAggregate(); errs != nil {
		return errs.Error()
	}
	return ""
}

func fieldErrors(findings []Finding) field.ErrorList {
	var list field.ErrorList
	errs := Errors(findings)
	for i, f := range errs {
		if i == mostCauses {
			return append(list, field.Forbidden(field.NewPath("metadata"), fmt.Sprintf("%d more problems, shown when these are solved", len(errs)-i)))
		}
		list = append(list, f.fieldError())
	}
	return list
}

func (f Finding) fieldError() *field.Error {
	return &field.Error{Type: f.Type, Field: f.Field, BadValue: Shorten(f.Value, longestValue), Detail: f.detail()}
}

// body is the finding without its field. One that is only ever a warning has no type of error, and no value to call bad.
func (f Finding) body() string {
	if f.Type == "" {
		return f.detail()
	}
	return f.fieldError().ErrorBody()
}

func (f Finding) detail() string {
	text := f.Message
	if len(f.Listeners) > 0 {
		text += " (" + strings.Join(f.Listeners, ", ") + ")"
	}
	if f.Remedy != "" {
		text += "; " + f.Remedy
	}
	return text
}

// Shorten cuts a text that is longer than so many bytes, and shows that.
func Shorten(text string, longest int) string {
	if len(text) > longest {
		return strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}
