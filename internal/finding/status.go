package finding

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
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
	list := causes(findings)
	// This is what apierrors.NewInvalid returns, but that writes every text three times.
	return &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: kind.String() + " " + strconv.Quote(name) + " is invalid: " + summary(list),
		Details: &metav1.StatusDetails{Group: kind.Group, Kind: kind.Kind, Name: name, Causes: list},
	}
}

// Summary returns the text of all errors for Events and conditions, the same as kubectl apply prints for a denied
// object.
func Summary(findings []Finding) string { return summary(causes(findings)) }

// summary joins the texts of causes. Those that are equal count once.
func summary(list []metav1.StatusCause) string {
	texts := make([]string, 0, len(list))
	seen := make(map[string]bool, len(list))
	for _, c := range list {
		if text := c.Field + ": " + c.Message; !seen[text] {
			seen[text] = true
			texts = append(texts, text)
		}
	}
	if len(texts) > 1 {
		return "[" + strings.Join(texts, ", ") + "]"
	}
	return strings.Join(texts, "")
}

// causes returns the errors as causes of an API status.
func causes(findings []Finding) []metav1.StatusCause {
	errs := Errors(findings)
	list := make([]metav1.StatusCause, 0, min(len(errs), maxCauses+1))
	for i, f := range errs {
		if i == maxCauses {
			f = Finding{
				Type: field.ErrorTypeForbidden, Field: "metadata",
				Message: fmt.Sprintf("%d more problems are reported once these are fixed", len(errs)-i),
			}
		}
		list = append(list, metav1.StatusCause{Type: metav1.CauseType(f.Type), Message: f.body(), Field: f.Field})
		if i == maxCauses {
			break
		}
	}
	return list
}

// body returns the text without the field. A check that only ever warns has no error type and no invalid value.
func (f Finding) body() string {
	switch f.Type {
	case "":
		return f.detail()
	case field.ErrorTypeRequired, field.ErrorTypeForbidden:
		return f.Type.String() + ": " + f.detail()
	default:
		return f.Type.String() + ": " + strconv.Quote(Shorten(f.Value, maxValueBytes)) + ": " + f.detail()
	}
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

// Shorten truncates a text that is longer than limit bytes and marks it with an ellipsis.
func Shorten(text string, limit int) string {
	if len(text) > limit {
		return strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}
