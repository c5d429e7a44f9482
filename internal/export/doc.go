// Package export translates the checks of catalogs into ValidatingAdmissionPolicies, a MutatingAdmissionPolicy and JSON Schema, for
// users who do not want a webhook. What CEL cannot express is listed, never left out silently.
package export
