// Package reference describes annotations and findings from the catalogs, for the command line and for the docs.
package reference

import (
	"slices"
	"strings"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
)

// portPlaces are the placeholders of families that have a key for each port.
var portPlaces = []string{"{port}", "{portname}", "{portref}"}

// Entry describes one annotation, or a family of them.
type Entry struct {
	// Catalog and Title name the cloud.
	Catalog string `json:"catalog"`
	Title   string `json:"title"`
	// Key may have placeholders such as {port}.
	Key     string   `json:"key"`
	Aliases []string `json:"aliases,omitempty"`
	Help    string   `json:"help"`
	// Type is the kind of the values; Allowed completes "must be …".
	Type    string `json:"type"`
	Allowed string `json:"allowed"`
	// Values are all valid values if they are a closed set; Pattern is a regular expression for them, if there is one.
	Values  []string `json:"values,omitempty"`
	Pattern string   `json:"pattern,omitempty"`
	// Default is the value without the annotation; empty if there is none, or if only the controller knows it.
	Default string `json:"default,omitempty"`
	// PortForm is the form of the key for one port; empty if there is none.
	PortForm string `json:"portForm,omitempty"`
	// Change is a sentence about the effect of a change; empty if the value may change.
	Change string `json:"change,omitempty"`
	// Rules are sentences about other keys and fields, and about the effect of an invalid value.
	Rules []string `json:"rules,omitempty"`
	// Rule is written in go-playground/validator's language; empty if there is none.
	Rule       string `json:"rule,omitempty"`
	Deprecated string `json:"deprecated,omitempty"`
	// Written is true if the controller writes the annotation.
	Written bool   `json:"written,omitempty"`
	Example string `json:"example"`
	// From is the controller that the entry describes, Source the places in it.
	From   string   `json:"from"`
	Source []string `json:"source"`
}

// Entries returns the entries of a catalog, in the catalog's order.
func Entries(l *library.Library, name string) []Entry {
	c, found := l.Find(name)
	if !found {
		return nil
	}
	var all []Entry
	document := c.Document()
	for i := range document.Annotations {
		all = append(all, entry(document.Head, &document.Annotations[i]))
	}
	return all
}

func entry(head document.Head, a *document.Annotation) Entry {
	e := Entry{
		Catalog: head.Name, Title: head.Title, Key: a.Name, Aliases: a.Aliases, Help: a.Help,
		Type: string(a.Type.Type), Allowed: a.Expected(), Default: defaults(a), Rule: a.Rule,
		Deprecated: a.Deprecated, Written: a.Written, Example: a.Valid, From: from(head), Source: a.Source,
	}
	switch {
	case a.PortForm:
		e.PortForm = a.Name + ".<port number or name>"
	case slices.ContainsFunc(portPlaces, func(place string) bool { return strings.Contains(a.Name, place) }):
		e.PortForm = a.Name
	}
	if len(a.Variants) == 0 {
		e.Values, e.Pattern = closed(&a.Type), a.Pattern
	}
	if a.Written {
		return e
	}
	e.Rules, e.Change = sentences(a), change(a)
	return e
}

// defaults describes the default, or the defaults that depend on the Service.
func defaults(a *document.Annotation) string {
	if len(a.Defaults) == 0 {
		return a.Default
	}
	var texts []string
	for _, d := range a.Defaults {
		var conditions []string
		for _, c := range d.If {
			conditions = append(conditions, with(c))
		}
		text := d.Value
		if len(conditions) > 0 {
			text += " " + strings.Join(conditions, " and ")
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// from returns the controller that a catalog describes, with its version.
func from(head document.Head) string {
	text := head.Controller + " " + head.Version
	if head.Date != "" {
		text += ", " + head.Date
	}
	return text
}

// closed returns the values of a type with a closed set of values, and nil for any other type.
func closed(t *annotation.Type) []string {
	var words []string
	switch {
	case t.Fold || t.Trim || t.Empty == annotation.Absent:
		return nil
	case t.Type == annotation.Enum:
		words = t.Values
	case t.Type == annotation.Bool:
		yes, no := t.BoolWords()
		words = slices.Concat(yes, no, t.Values)
	}
	return words
}
