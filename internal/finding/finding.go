// Package rules holds what a check has to say about an object, and decides what of it an update must answer for.
package finding

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Severity tells whether a finding refuses an object.
type Severity string

// The severities of findings.
const (
	// Error refuses the object.
	Error Severity = "error"
	// Warning is shown to the user and admits the object.
	Warning Severity = "warning"
	// Audit is counted and admits the object without a word.
	Audit Severity = "audit"
)

// Finding is one problem of one field of an object.
type Finding struct {
	// ID names the rule, such as dlb-invalid-value. It is stable: docs, metrics and suppressions refer to it.
	ID string
	// Catalog names the catalog of annotations whose rule it is, such as mycloud; empty for rules of others.
	Catalog string
	// Severity is the rule's own; Review lowers what an update did not introduce.
	Severity Severity
	// Type is the cause's reason in an API status, such as field.ErrorTypeInvalid; empty for what is only ever a warning.
	Type field.ErrorType
	// Field is the path, such as metadata.annotations[service.beta.kubernetes.io/dlb-scheduler].
	Field string
	// Value is the bad value as the user wrote it; empty where something is missing.
	Value string
	// Message says what must hold ("must be …"), without field and value.
	Message string
	// Remedy says what to do.
	Remedy string
	// Listeners are the listeners at fault, such as tcp/443; empty when the finding is of the whole Service.
	Listeners []string
	// Old says that the object had the problem before the update under review.
	Old bool
}
