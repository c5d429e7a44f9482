package catalog

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

//go:embed vendors/*.yaml
var files embed.FS

// separator stands between the two documents of a file.
var separator = []byte("\n---\n")

// heads are read at once, bodies when a Service asks for them: a linter should start fast.
var heads = sync.OnceValue(func() map[string]*Catalog {
	entries, err := files.ReadDir("vendors")
	must(err)
	all := map[string]*Catalog{}
	for _, entry := range entries {
		raw, err := files.ReadFile(path.Join("vendors", entry.Name()))
		must(err)
		head, body, found := bytes.Cut(raw, separator)
		if !found {
			panic(entry.Name() + ": has no second YAML document")
		}
		c := &Catalog{}
		if err := yaml.UnmarshalStrict(head, &c.Head); err != nil {
			panic(fmt.Sprintf("%s: %v", entry.Name(), err))
		}
		if c.Name+".yaml" != entry.Name() {
			panic(entry.Name() + ": is the file of another catalog: " + c.Name)
		}
		c.read = sync.OnceValue(func() *contents {
			var b Body
			if err := yaml.UnmarshalStrict(body, &b); err != nil {
				panic(fmt.Sprintf("%s: %v", entry.Name(), err))
			}
			return newContents(b)
		})
		all[c.Name] = c
	}
	return all
})

// Names are those of all catalogs, sorted.
func Names() []string {
	var names []string
	for name := range heads() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Find is the catalog of this name.
func Find(name string) (c *Catalog, found bool) {
	c, found = heads()[name]
	return c, found
}

// contents are a body made ready.
type contents struct {
	Body
	entries []*entry
	// byName has the entries whose names are keys, by name and alias; families are the others.
	byName   map[string]*entry
	families []*entry
}

// entry is an annotation made ready.
type entry struct {
	*Annotation
	// templates are those of the name and of the aliases, for a family; else nil.
	templates []*template
	// variants are what it is in place of itself where the conditions of its Variants hold, in their order.
	variants []*entry
}

func newContents(b Body) *contents {
	c := &contents{Body: b, byName: map[string]*entry{}}
	for i := range b.Annotations {
		e := newEntry(&b.Annotations[i], b.Empty)
		c.entries = append(c.entries, e)
		names := e.Names()
		if !strings.Contains(e.Name, "{") {
			for _, name := range names {
				c.byName[name] = e
			}
			continue
		}
		for _, name := range names {
			e.templates = append(e.templates, newTemplate(name))
		}
		c.families = append(c.families, e)
	}
	return c
}

func newEntry(a *Annotation, empty Empty) *entry {
	e := &entry{Annotation: a}
	e.Type.inherit(empty)
	for i := range a.Variants {
		v := &a.Variants[i]
		v.Type.inherit(empty)
		other := *a
		other.Type, other.OnInvalid, other.OnChange = v.Type, v.OnInvalid, v.OnChange
		other.Consequence, other.Valid, other.Invalid = v.Consequence, v.Valid, v.Invalid
		e.variants = append(e.variants, &entry{Annotation: &other})
	}
	return e
}

// on is the entry as it is on a Service.
func (e *entry) on(r *reading) *entry {
	for i, other := range e.variants {
		if r.all(e.Variants[i].If, nil) {
			return other
		}
	}
	return e
}

// must is for what is wrong in the program, never in its input.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
