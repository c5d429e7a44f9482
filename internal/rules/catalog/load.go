package catalog

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/spec"
)

// files are the catalogs in the form that the compiler writes: the head in the first line, the body in the second.
//
//go:embed compiled/*.json
var files embed.FS

// heads decodes the heads on first use, and each body only when it is needed, so that programs start fast.
var heads = sync.OnceValue(func() map[string]*Catalog {
	entries, err := files.ReadDir("compiled")
	must(err)
	all := map[string]*Catalog{}
	for _, entry := range entries {
		raw, err := files.ReadFile(path.Join("compiled", entry.Name()))
		must(err)
		head, body, _ := bytes.Cut(raw, []byte("\n"))
		c := &Catalog{}
		must(json.Unmarshal(head, &c.Head))
		c.contents = sync.OnceValue(func() *contents {
			var b Body
			must(json.Unmarshal(body, &b))
			return newContents(c.Head, b)
		})
		all[c.Name] = c
	}
	return all
})

// Names returns the names of all catalogs, sorted.
func Names() []string {
	var names []string
	for name := range heads() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Find returns the catalog with this name.
func Find(name string) (c *Catalog, found bool) {
	c, found = heads()[name]
	return c, found
}

// contents holds a body prepared for use.
type contents struct {
	Body
	entries []*entry
	// byName holds the entries by name and alias; families holds those with placeholders in their names.
	byName   map[string]*entry
	families []*entry
	// portForms is true if an entry has a form for ports, forms the number of these entries.
	portForms bool
	forms     int
	// domains are the parts of names and aliases before the slash.
	domains map[string]bool
	// names returns what an unknown key may be a typo of, by prefix; it is computed for the first one.
	names func() map[string]*names
}

// entry is an annotation prepared for use.
type entry struct {
	*Annotation
	// templates match the name and the aliases of a family; nil for any other entry.
	templates []*template
	// variants replace the entry if the conditions of the Variants at the same index hold.
	variants []*entry
	// base is the entry that a variant replaces; the entry itself for any other.
	base *entry
	// form is the index of an entry with forms for ports, among these.
	form int
	// defaults are the parsed Defaults, or the Default without conditions.
	defaults []defaultValue
	// applies holds the requirements that decide whether the annotation applies to a port, or at all.
	applies []*Requirement
}

type defaultValue struct {
	conditions []Condition
	raw        string
	value      annotation.Value
}

func newContents(h Head, b Body) *contents {
	c := &contents{Body: b, byName: map[string]*entry{}, domains: map[string]bool{}}
	c.names = sync.OnceValue(func() map[string]*names { return newNames(h, c.entries) })
	for i := range b.Annotations {
		e := newEntry(&b.Annotations[i], b.Empty)
		c.entries = append(c.entries, e)
		for _, name := range e.Names() {
			domain, _, _ := strings.Cut(name, "/")
			c.domains[domain] = true
		}
		if e.PortForm {
			e.form, c.portForms = c.forms, true
			c.forms++
		}
		if e.family() {
			for _, name := range e.Names() {
				e.templates = append(e.templates, newTemplate(name))
			}
			c.families = append(c.families, e)
			continue
		}
		for _, name := range e.Names() {
			c.byName[name] = e
		}
	}
	return c
}

func newEntry(a *Annotation, empty annotation.Empty) *entry {
	a.Complete(empty)
	e := &entry{Annotation: a}
	e.base = e
	for i := range a.Variants {
		v := &a.Variants[i]
		v.Complete(empty)
		other := *a
		other.Type, other.OnInvalid, other.OnChange = v.Type, v.OnInvalid, v.OnChange
		other.Consequence, other.Valid, other.Invalid = v.Consequence, v.Valid, v.Invalid
		e.variants = append(e.variants, &entry{Annotation: &other, base: e})
	}
	for _, d := range a.allDefaults() {
		value, err := a.Parse(d.Value)
		if err != nil {
			panic(fmt.Sprintf("%s: invalid default %q", a.Name, d.Value))
		}
		e.defaults = append(e.defaults, defaultValue{conditions: d.If, raw: d.Value, value: value})
	}
	for i := range a.Requires {
		q := &a.Requires[i]
		q.index = i
		q.eachPort = a.PortForm && slices.ContainsFunc(slices.Concat(q.If, q.Any), func(c Condition) bool {
			return spec.OfPorts(c.Field) || c.Key != ""
		})
		if q.SomePort {
			e.applies = append(e.applies, q)
		}
	}
	return e
}

// allDefaults returns Defaults, or Default as the only element.
func (a *Annotation) allDefaults() []Default {
	if a.Default != "" {
		return []Default{{Value: a.Default}}
	}
	return a.Defaults
}

func (a *Annotation) family() bool { return strings.Contains(a.Name, "{") }

// variantFor returns the variant of the entry for a Service, or the entry itself.
func (e *entry) variantFor(v *View) *entry {
	for i, other := range e.variants {
		if v.all(e.Variants[i].If, service) {
			return other
		}
	}
	return e
}

// find returns the entry that a key belongs to, with the values of its placeholders.
func (c *contents) find(key string) (*entry, bindings, bool) {
	if e, found := c.byName[key]; found {
		return e, nil, true
	}
	for _, e := range c.families {
		for _, t := range e.templates {
			if b, ok := t.match(key); ok {
				return e, b, true
			}
		}
	}
	return nil, nil, false
}

// must panics on an error that only a bug in the program can cause, never its input.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
