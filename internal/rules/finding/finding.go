// Package finding holds the problems that checks find in an object, and determines which of them an update introduces.
package finding

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Severity determines whether a finding denies an object.
type Severity string

// The severities of findings.
const (
	// Error denies the object.
	Error Severity = "error"
	// Warning admits the object and is shown to the user.
	Warning Severity = "warning"
	// Note is shown by the linter only: something was not validated.
	Note Severity = "note"
	// Audit admits the object and is only counted.
	Audit Severity = "audit"
)

// Finding is one problem of one field of an object.
type Finding struct {
	// ID identifies the kind of problem, such as dlb-invalid-value. It is stable: docs, metrics and suppressions refer to it.
	ID string
	// Check names the check that failed, among those of the catalog or policy, where many share an ID. Ratchet compares
	// it; an error without it is never old.
	Check string
	// Subject names what the check looked at, apart from Value and Listeners, if that is not Field: a field without
	// list indexes, because elements move, or more than one annotation. Ratchet compares it.
	Subject string
	// Catalog names the annotation catalog that the check belongs to, such as mycloud; empty for checks outside
	// catalogs.
	Catalog string
	// AlsoCatalogs are other catalogs that have the same finding, under ids of theirs.
	AlsoCatalogs []string
	// Severity is that of the check; Ratchet lowers it for what an update did not introduce.
	Severity Severity
	// Outcome is what the controller of the catalog does: refused, misread or ignored; empty if the check is Quaymaster's
	// own, such as that of unknown keys.
	Outcome string
	// Type is the cause's reason in an API status, such as field.ErrorTypeInvalid; empty for checks that only ever
	// warn.
	Type field.ErrorType
	// Field is the path, such as metadata.annotations[service.beta.kubernetes.io/dlb-scheduler].
	Field string
	// Value is the invalid value as the user wrote it; empty if a value is missing.
	Value string
	// Message describes the problem or the requirement ("must be …"), without field and value.
	Message string
	// Remedy describes how to fix the problem.
	Remedy string
	// Listeners are the affected listeners, such as tcp/443; empty for findings about the whole Service.
	Listeners []string
	// Old is true if the same check failed on the same value of the object before the update.
	Old bool
}

// Annotations is the Field of findings about all annotations.
const Annotations = "metadata.annotations"

// FieldOf returns the Field of findings about the annotation of a key.
func FieldOf(key string) string { return Annotations + "[" + key + "]" }

// Key returns the key of the annotation that a finding is about, or else its field.
func (f Finding) Key() string {
	return strings.TrimSuffix(strings.TrimPrefix(f.Field, Annotations+"["), "]")
}
