package finding

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/visible"
)

const (
	// maxValueBytes bounds how much of an invalid value is shown; the user has the rest.
	maxValueBytes = 128
	// maxCauses bounds a response: no one reads more, and an object may have as many problems as annotations.
	maxCauses = 100
)

// Errors returns the findings that deny the object.
func Errors(findings []Finding) []Finding {
	var errs []Finding
	for _, f := range findings {
		if f.Severity == Error {
			errs = append(errs, f)
		}
	}
	return errs
}

// Deny reports whether the findings deny the object.
func Deny(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == Error })
}

// Warnings returns the texts of the warnings, as kubectl shows them after "Warning: ".
func Warnings(findings []Finding) []string {
	var texts []string
	for _, f := range findings {
		if f.Severity != Warning {
			continue
		}
		text := f.Field + ": " + f.body()
		if f.Old {
			text = "allowed because it was already set: " + text
		}
		texts = append(texts, text)
	}
	return texts
}

// InvalidStatus returns the API status for an object with errors: 422 Invalid, one cause per error, and all of them in
// the message.
func InvalidStatus(kind schema.GroupKind, name string, findings []Finding) *metav1.Status {
	return &apierrors.NewInvalid(kind, name, errorList(findings)).ErrStatus
}

// Summary returns the text of all errors for Events and conditions, the same as kubectl apply prints for a denied
// object.
func Summary(findings []Finding) string {
	if err := errorList(findings).ToAggregate(); err != nil {
		return err.Error()
	}
	return ""
}

// errorList returns the errors as those of Kubernetes' own validation.
func errorList(findings []Finding) field.ErrorList {
	errs := Errors(findings)
	more := len(errs) - maxCauses
	list := make(field.ErrorList, 0, min(len(errs), maxCauses+1))
	for _, f := range errs[:min(len(errs), maxCauses)] {
		list = append(list, f.fieldError())
	}
	if more > 0 {
		list = append(list, field.Forbidden(field.NewPath("metadata"),
			fmt.Sprintf("%d more problems are reported once these are fixed", more)))
	}
	return list
}

func (f Finding) fieldError() *field.Error {
	return &field.Error{Type: f.Type, Field: f.Field, BadValue: visible.Shorten(f.Value, maxValueBytes), Detail: f.detail()}
}

// body returns the text without the field. A check that only ever warns has no error type and no invalid value.
func (f Finding) body() string {
	if f.Type == "" {
		return f.detail()
	}
	return f.fieldError().ErrorBody()
}

func (f Finding) detail() string {
	if f.Remedy == "" {
		return f.Problem()
	}
	return f.Problem() + "; " + f.Remedy
}

// Problem returns the message with the listeners at fault, and with the catalogs if several have the finding.
func (f Finding) Problem() string {
	text := f.Message
	if len(f.Listeners) > 0 {
		text += " (" + strings.Join(f.Listeners, ", ") + ")"
	}
	if len(f.AlsoCatalogs) > 0 {
		text += " (" + strings.Join(append([]string{f.Catalog}, f.AlsoCatalogs...), ", ") + ")"
	}
	return text
}
