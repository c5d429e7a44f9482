package library

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/spec"
)

// Contents holds the body of a catalog, prepared for use.
type Contents struct {
	document.Body

	Entries []*Entry
	// ByName holds the entries by name and alias; families holds those with placeholders in their names.
	ByName   map[string]*Entry
	families []*Entry
	// PortForms is true if an entry has a form for ports, Forms the number of these entries.
	PortForms bool
	Forms     int
	// Domains are the parts of names, aliases and prefixes before the slash: those of every key that may belong to the
	// catalog.
	Domains map[string]bool
	// names returns what an unknown key may be a typo of, by prefix; it is computed for the first one.
	names func() map[string]*names
	// tails returns the names and aliases without placeholders by their part after the slash, also when first needed.
	tails func() map[string][]tail
}

// Entry is an annotation prepared for use.
type Entry struct {
	*document.Annotation

	// Alternatives replace the entry if the conditions of the Variants at the same index hold.
	Alternatives []*Entry
	// Base is the entry that an alternative replaces; the entry itself for any other.
	Base *Entry
	// Form is the index of an entry with forms for ports, among these.
	Form int
	// DefaultValues are the parsed Defaults, or the Default without conditions.
	DefaultValues []DefaultValue
	// Requirements are the prepared Requires.
	Requirements []*Requirement
	// Applies holds the requirements that decide whether the annotation applies to a port, or at all.
	Applies []*Requirement

	// templates match the name and the aliases of a family; nil for any other entry.
	templates []*document.Template
}

// DefaultValue is a value of a key that is not set.
type DefaultValue struct {
	Conditions []document.Condition
	Raw        string
	Value      annotation.Value
}

// Requirement is a requirement prepared for use.
type Requirement struct {
	*document.Requirement

	// Index is that among the requirements of the annotation.
	Index int
	// EachPort is true if the requirement is checked for each port that the annotation governs.
	EachPort bool
}

func newContents(h document.Head, b document.Body) *Contents {
	c := &Contents{Body: b, ByName: map[string]*Entry{}, Domains: map[string]bool{}}
	for _, prefix := range slices.Concat(h.Prefixes, h.SharedPrefixes) {
		domain, _, _ := strings.Cut(prefix, "/")
		c.Domains[domain] = true
	}
	c.names = sync.OnceValue(func() map[string]*names { return newNames(h, c.Entries) })
	c.tails = sync.OnceValue(func() map[string][]tail { return newTails(c.Entries) })
	for i := range b.Annotations {
		e := newEntry(&b.Annotations[i], b.Empty)
		c.Entries = append(c.Entries, e)
		for _, name := range e.Names() {
			domain, _, _ := strings.Cut(name, "/")
			c.Domains[domain] = true
		}
		if e.PortForm {
			e.Form, c.PortForms = c.Forms, true
			c.Forms++
		}
		if e.Family() {
			for _, name := range e.Names() {
				e.templates = append(e.templates, document.NewTemplate(name))
			}
			c.families = append(c.families, e)
			continue
		}
		for _, name := range e.Names() {
			c.ByName[name] = e
		}
	}
	return c
}

func newEntry(a *document.Annotation, empty annotation.Empty) *Entry {
	a.Complete(empty)
	e := &Entry{Annotation: a}
	e.Base = e
	for i := range a.Variants {
		v := &a.Variants[i]
		v.Complete(empty)
		other := *a
		other.Type, other.OnInvalid, other.OnChange = v.Type, v.OnInvalid, v.OnChange
		other.Consequence, other.Valid, other.Invalid = v.Consequence, v.Valid, v.Invalid
		e.Alternatives = append(e.Alternatives, &Entry{Annotation: &other, Base: e})
	}
	for _, d := range allDefaults(a) {
		value, err := a.Parse(d.Value)
		if err != nil {
			panic(fmt.Sprintf("%s: invalid default %q", a.Name, d.Value))
		}
		e.DefaultValues = append(e.DefaultValues, DefaultValue{Conditions: d.If, Raw: d.Value, Value: value})
	}
	for i := range a.Requires {
		q := &Requirement{Requirement: &a.Requires[i], Index: i}
		q.EachPort = a.PortForm && slices.ContainsFunc(slices.Concat(q.If, q.Any), func(c document.Condition) bool {
			return spec.OfPorts(c.Field) || c.Key != ""
		})
		e.Requirements = append(e.Requirements, q)
		if q.SomePort {
			e.Applies = append(e.Applies, q)
		}
	}
	for _, other := range e.Alternatives {
		other.Requirements = e.Requirements
	}
	return e
}

// allDefaults returns Defaults, or Default as the only element.
func allDefaults(a *document.Annotation) []document.Default {
	if a.Default != "" {
		return []document.Default{{Value: a.Default}}
	}
	return a.Defaults
}

// Concerns reports whether the requirement applies to a value.
func (q *Requirement) Concerns(value annotation.Value) bool {
	return q.Values == nil || slices.ContainsFunc(value.List, func(v string) bool {
		return slices.Contains(q.Values, v)
	})
}

// Find returns the entry that a key belongs to, with the values of its placeholders.
func (c *Contents) Find(key string) (*Entry, document.Bindings, bool) {
	if e, found := c.ByName[key]; found {
		return e, nil, true
	}
	for _, e := range c.families {
		for _, t := range e.templates {
			if b, ok := t.Match(key); ok {
				return e, b, true
			}
		}
	}
	return nil, nil, false
}
