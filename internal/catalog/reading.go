package catalog

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// reading is a Service as one controller sees it.
type reading struct {
	svc     *corev1.Service
	catalog *Catalog
	*contents
	// settings are the annotations that the catalog knows, in the order of their keys.
	settings []*setting
}

// setting is one annotation.
type setting struct {
	*entry
	// key and raw are what the user wrote.
	key, raw string
	// name is the key's name where it is an alias: that of the entry with the placeholders filled in.
	name     string
	bindings bindings
	parsed   Parsed
	// err is why the value is none of the type.
	err error
	// shadowed says that an alias is not read, because the name itself is there.
	shadowed bool
}

// has tells whether the controller sees a value. One that is wrong counts: it was meant to be there.
func (s *setting) has() bool { return !s.shadowed && !s.parsed.Absent }

// view reads the annotations of a Service.
func (c *Catalog) view(svc *corev1.Service) *reading {
	r := &reading{svc: svc, catalog: c, contents: c.read()}
	for _, key := range slices.Sorted(maps.Keys(svc.Annotations)) {
		e, b, found := r.find(key)
		if !found {
			continue
		}
		s := &setting{entry: e.on(r), key: key, raw: svc.Annotations[key], name: b.expand(e.Name), bindings: b}
		if _, twice := svc.Annotations[s.name]; twice && s.name != key {
			s.shadowed = true
		}
		s.parsed, s.err = s.Parse(s.raw)
		r.settings = append(r.settings, s)
	}
	return r
}

// find is the entry that a key belongs to.
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

// of are the settings of a name, which may be a family's. Placeholders are filled in as far as they are bound.
func (r *reading) of(name string, b bindings) []*setting {
	expanded := b.expand(name)
	var found []*setting
	for _, s := range r.settings {
		if s.has() && (s.name == expanded || s.Name == expanded) {
			found = append(found, s)
		}
	}
	return found
}

// values are what holds for a name: what is set, else the default. known is false where a value is wrong, so that nobody can tell.
func (r *reading) values(name string, b bindings) (values []string, set, known bool) {
	settings := r.of(name, b)
	for _, s := range settings {
		if s.err != nil {
			return nil, true, false
		}
		values = append(values, s.parsed.List...)
	}
	if len(settings) > 0 {
		return values, true, true
	}
	if e, found := r.byName[name]; found && e.Default != "" {
		p, err := e.Parse(e.Default)
		must(err)
		return p.List, false, true
	}
	return nil, false, true
}
