// Package export says the rules of catalogs in the languages of others: ValidatingAdmissionPolicy and MutatingAdmissionPolicy for
// whoever wants no webhook. What CEL cannot say is told, never left out in silence.
package export
