// Package reference tells people what annotations and findings mean: it has one view of what the DLB's descriptors and other
// clouds' catalogs know, for the command line and for the docs.
package reference

import (
	"fmt"
	"slices"
	"strings"

	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/loadbalancer"
)

// titleDLB is what people call the cloud of the project's own annotations.
const titleDLB = "DLB"

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
	// Rules are sentences about other keys and fields, about changes, and about what becomes of a bad value.
	Rules []string `json:"rules,omitempty"`
	// Rule is in go-playground/validator's language, where there is one.
	Rule       string `json:"rule,omitempty"`
	Deprecated string `json:"deprecated,omitempty"`
	// Written says that the controller writes it.
	Written bool     `json:"written,omitempty"`
	Example string   `json:"example"`
	Source  []string `json:"source,omitempty"`
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
		Rule: d.Rule, Example: d.Example, Values: d.Words(),
	}
	if d.PortForm {
		e.PortForm = d.Key + ".<port number or name>"
	}
	if d.Immutable {
		e.Rules = append(e.Rules, immutable)
	}
	return e
}

func ofAnnotation(head catalog.Head, a *catalog.Annotation) Entry {
	e := Entry{
		Catalog: head.Name, Title: head.Title, Key: a.Name, Aliases: a.Aliases, Help: a.Help, Type: string(a.Type.Type), Allowed: a.Words(),
		Default: a.Default, Rule: a.Rule, Deprecated: a.Deprecated, Written: a.Written, Example: a.Valid, Source: a.Source,
	}
	if len(a.Variants) == 0 {
		e.Values, e.Pattern = closed(&a.Type), a.Pattern
	}
	if a.Written {
		return e
	}
	text := "A bad value is " + outcomes[a.OnInvalid]
	if a.Consequence != "" {
		text += ": " + a.Consequence
	}
	e.Rules = append(e.Rules, text+".")
	for i := range a.Variants {
		e.Rules = append(e.Rules, variant(&a.Variants[i]))
	}
	for _, q := range a.Requires {
		e.Rules = append(e.Rules, requirement(q))
	}
	if a.OnChange != "" {
		e.Rules = append(e.Rules, "A change while there is a load balancer is "+outcomes[a.OnChange]+".")
	}
	return e
}

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

// outcomes are what controllers do with mistakes.
var outcomes = map[catalog.Outcome]string{
	catalog.Refused: "refused by the controller or its cloud",
	catalog.Misread: "read as something else, in silence and with harm",
	catalog.Ignored: "ignored in silence",
}

func variant(v *catalog.Variant) string {
	text := fmt.Sprintf("Where it %s, it must be %s; a bad value is %s", strings.Replace(catalog.Demand(v.If), "stand", "stands", 1), v.Words(), outcomes[v.OnInvalid])
	if v.Consequence != "" {
		text += ": " + v.Consequence
	}
	return text + "."
}

func requirement(q catalog.Requirement) string {
	message := q.Message
	if message == "" {
		message = catalog.Demand(q.Any)
	}
	text := "It must " + message
	if len(q.Values) > 0 {
		text = "With " + strings.Join(q.Values, " or ") + " it must " + message
	}
	return text + fmt.Sprintf("; otherwise it is %s.", outcomes[q.OnBreach])
}

// Find are the entries that a key belongs to: of several catalogs, where they share keys.
func Find(names []string, key string) []Entry {
	var found []Entry
	for _, name := range names {
		for _, e := range Entries(name) {
			if e.names(key) {
				found = append(found, e)
			}
		}
	}
	return found
}

// names tells whether a key is the entry's, as one for a port too.
func (e Entry) names(key string) bool {
	if e.PortForm != "" {
		if suffix, ok := strings.CutPrefix(key, e.Key+"."); ok && suffix != "" {
			return true
		}
	}
	return slices.ContainsFunc(append([]string{e.Key}, e.Aliases...), func(name string) bool {
		return name == key || catalog.IsOf(name, key)
	})
}

// Nearest is the key of the catalogs that somebody probably meant.
func Nearest(names []string, key string) string {
	var keys []string
	for _, name := range names {
		for _, e := range Entries(name) {
			keys = append(append(keys, e.Key), e.Aliases...)
		}
	}
	nearest, _ := annotation.Nearest(key, keys)
	return nearest
}

// Search are the entries in which every word occurs, in key or help, whatever their case.
func Search(names []string, words []string) []Entry {
	var found []Entry
	for _, name := range names {
		for _, e := range Entries(name) {
			text := strings.ToLower(strings.Join(append([]string{e.Catalog, e.Title, e.Key, e.Help}, e.Aliases...), " "))
			if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, strings.ToLower(word)) }) {
				found = append(found, e)
			}
		}
	}
	return found
}
