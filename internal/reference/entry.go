// Package reference tells people what annotations and findings mean: it has one view of what the DLB's descriptors and other
// clouds' catalogs know, for the command line and for the docs.
package reference

import (
	"slices"
	"strings"

	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/loadbalancer"
)

const (
	// titleDLB is what people call the cloud of the project's own annotations.
	titleDLB = "DLB"
	// ourselves is what those were read from.
	ourselves = "this project"
)

// portPlaces are the placeholders of families that have a key for each port.
var portPlaces = []string{"{port}", "{portname}", "{portref}"}

// Entry is what there is to say about one annotation, or about a family of them.
type Entry struct {
	// Catalog and Title name the cloud.
	Catalog string `json:"catalog"`
	Title   string `json:"title"`
	// Key may have placeholders such as {port}.
	Key     string   `json:"key"`
	Aliases []string `json:"aliases,omitempty"`
	Help    string   `json:"help"`
	// Type is a word, Allowed completes "must be …".
	Type    string `json:"type"`
	Allowed string `json:"allowed"`
	// Values are all there are, where they are a closed set; Pattern is a regular expression for them, where there is one.
	Values  []string `json:"values,omitempty"`
	Pattern string   `json:"pattern,omitempty"`
	// Default is what holds without the annotation; empty for none, or for one that nobody but the controller knows.
	Default string `json:"default,omitempty"`
	// PortForm is how the key is written for one port; empty where it cannot be.
	PortForm string `json:"portForm,omitempty"`
	// Change is a sentence about what becomes of a change while there is a load balancer; empty where the value may change.
	Change string `json:"change,omitempty"`
	// Rules are sentences about other keys and fields, and about what becomes of a bad value.
	Rules []string `json:"rules,omitempty"`
	// Rule is in go-playground/validator's language, where there is one.
	Rule       string `json:"rule,omitempty"`
	Deprecated string `json:"deprecated,omitempty"`
	// Written says that the controller writes it.
	Written bool   `json:"written,omitempty"`
	Example string `json:"example"`
	// From is what the knowledge was read from, Source where it stands there.
	From   string   `json:"from"`
	Source []string `json:"source"`
}

// Entries are those of a catalog, in its order.
func Entries(name string) []Entry {
	var all []Entry
	if name == loadbalancer.Catalog {
		for _, d := range loadbalancer.Keys() {
			all = append(all, ofDescriptor(d))
		}
		return all
	}
	c, found := catalog.Find(name)
	if !found {
		return nil
	}
	document := c.Document()
	for i := range document.Annotations {
		all = append(all, ofAnnotation(document.Head, &document.Annotations[i]))
	}
	return all
}

func ofDescriptor(d *annotation.Descriptor) Entry {
	e := Entry{
		Catalog: loadbalancer.Catalog, Title: titleDLB, Key: d.Key, Help: d.Help, Type: d.Type(), Allowed: d.Allowed(), Default: d.Default,
		Rule: d.Rule, Example: d.Example, Values: d.Words(), From: ourselves, Source: []string{"docs/reference/annotations.md#" + d.Name},
	}
	if d.PortForm {
		e.PortForm = d.Key + ".<port number or name>"
	}
	if d.Immutable {
		e.Change = immutable
	}
	return e
}

func ofAnnotation(head catalog.Head, a *catalog.Annotation) Entry {
	e := Entry{
		Catalog: head.Name, Title: head.Title, Key: a.Name, Aliases: a.Aliases, Help: a.Help, Type: string(a.Type.Type), Allowed: a.Words(),
		Default: a.Default, Rule: a.Rule, Deprecated: a.Deprecated, Written: a.Written, Example: a.Valid,
		From: from(head), Source: a.Source,
	}
	if slices.ContainsFunc(portPlaces, func(place string) bool { return strings.Contains(a.Name, place) }) {
		e.PortForm = a.Name
	}
	if len(a.Variants) == 0 {
		e.Values, e.Pattern = closed(&a.Type), a.Pattern
	}
	if a.Written {
		return e
	}
	e.Rules, e.Change = sentences(a), change(a.OnChange)
	return e
}

// from is what a catalog was read from.
func from(head catalog.Head) string { return head.Controller + " " + head.Version }

// closed are the values of a type that has a closed set of them.
func closed(t *catalog.Type) []string {
	var words []string
	switch {
	case t.Fold || t.Trim || t.Empty == catalog.Absent:
		return nil
	case t.Type == catalog.Enum:
		words = t.Values
	case t.Type == catalog.Bool:
		yes, no := t.BoolWords()
		words = slices.Concat(yes, no, t.Values)
	}
	return words
}
