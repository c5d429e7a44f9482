// Package vendors compares what a catalog finds in Services with what the vendor's own code says about them. A generator
// creates the Services from the catalog itself: its keys, types, limits, conditions and requirements.
package vendors

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/check"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
)

// Class is a kind of generated Services.
type Class string

// The classes.
const (
	// Valid: one annotation with a valid value, and what it requires.
	Valid Class = "valid"
	// Boundary: a value at, or just beyond, a limit.
	Boundary Class = "boundary"
	// WrongType: a value of a different type.
	WrongType Class = "wrong type"
	// Dialect: a value as another controller or tool writes it.
	Dialect Class = "other dialect"
	// Misspelt: a key or word with a typo.
	Misspelt Class = "misspelt"
	// Combined: several annotations of all of these classes.
	Combined Class = "combined"
	// Spec: variants of the Service's fields.
	Spec Class = "spec"
)

// Classes lists all classes.
var Classes = []Class{Valid, Boundary, WrongType, Dialect, Misspelt, Combined, Spec}

// Case is a generated Service.
type Case struct {
	Class   Class
	Service *corev1.Service
}

// Generator generates Services from a catalog.
type Generator struct {
	catalog *library.Catalog
	entries []*library.Entry
	seed    uint64
	// fields are the values that the conditions of the catalog compare fields with.
	fields map[string][]string
}

// NewGenerator returns the generator of a catalog. The same seed generates the same Services.
func NewGenerator(c *library.Catalog, seed uint64) *Generator {
	g := &Generator{catalog: c, seed: seed, fields: map[string][]string{}}
	for _, e := range c.Contents().Entries {
		if !e.WrittenByController() {
			g.entries = append(g.entries, e)
		}
	}
	for _, condition := range conditions(c.Document()) {
		if condition.Field != "" {
			values := slices.Concat(condition.Is, condition.Not, condition.Only)
			g.fields[condition.Field] = append(g.fields[condition.Field], values...)
		}
	}
	return g
}

// conditions returns every condition of a catalog.
func conditions(d document.Document) []document.Condition {
	all := slices.Concat(d.Owns.When, d.Owns.Any, d.Owns.Also)
	for i := range d.Annotations {
		a := &d.Annotations[i]
		all = slices.Concat(all, a.ReadIf, a.DefaultIf)
		for _, v := range a.Variants {
			all = append(all, v.If...)
		}
		for _, q := range a.Requires {
			all = slices.Concat(all, q.If, q.Any)
		}
	}
	for i := range d.Checks {
		all = slices.Concat(all, d.Checks[i].If, d.Checks[i].Any)
	}
	return all
}

// Case returns the Service with a number. It depends on nothing but the catalog, the seed and the number.
func (g *Generator) Case(number int) Case {
	class := Classes[number%len(Classes)]
	m := &maker{g: g, r: rand.New(rand.NewPCG(g.seed, uint64(number)))} //nolint:gosec // a number of a case is not negative, and nothing is secret
	m.svc = m.plain()
	switch class {
	case Spec:
		m.varySpec(1 + m.r.IntN(4))
		if m.chance(2) {
			m.annotate(Valid)
		}
	case Combined:
		for range 2 + m.r.IntN(5) {
			m.annotate([]Class{Valid, Valid, Valid, Boundary, WrongType, Dialect, Misspelt}[m.r.IntN(7)])
		}
		if m.chance(3) {
			m.varySpec(1)
		}
	default:
		m.annotate(class)
		if m.chance(8) {
			m.varySpec(1)
		}
	}
	return Case{Class: class, Service: m.svc}
}

// maker builds one Service.
type maker struct {
	g   *Generator
	r   *rand.Rand
	svc *corev1.Service
}

// chance returns true once in n times.
func (m *maker) chance(n int) bool { return m.r.IntN(n) == 0 }

// one returns one of the texts.
func (m *maker) one(texts []string) string { return texts[m.r.IntN(len(texts))] }

// annotate sets one annotation of the catalog to a value of the class.
func (m *maker) annotate(class Class) {
	if len(m.g.entries) == 0 {
		return
	}
	e := m.g.entries[m.r.IntN(len(m.g.entries))]
	if !m.chance(4) {
		m.satisfy(e, 3)
	}
	t := m.typeOf(e)
	key := m.key(e)
	switch class {
	case Boundary:
		m.set(key, m.boundary(t))
	case WrongType:
		m.set(key, m.wrongType(e))
	case Dialect:
		m.set(key, m.dialect(t))
	case Misspelt:
		m.misspell(e, key, m.valid(t, e.Valid))
	default:
		m.set(key, m.valid(t, e.Valid))
	}
}

// typeOf returns the type of an annotation, or of one of its variants, whose conditions then hold.
func (m *maker) typeOf(e *library.Entry) *annotation.Type {
	if len(e.Alternatives) == 0 || m.chance(2) {
		return &e.Type
	}
	at := m.r.IntN(len(e.Alternatives))
	for _, c := range e.Variants[at].If {
		m.makeHold(c, 1)
	}
	return &e.Alternatives[at].Type
}

func (m *maker) set(key, value string) {
	if m.svc.Annotations == nil {
		m.svc.Annotations = map[string]string{}
	}
	m.svc.Annotations[key] = value
}

// key returns one of the names of an annotation, with its placeholders filled in.
func (m *maker) key(e *library.Entry) string {
	names := e.Names()
	name := names[0]
	if m.chance(5) {
		name = m.one(names)
	}
	if e.PortForm && m.chance(3) {
		return name + "." + m.portRef()
	}
	return m.fill(name)
}

// fill replaces the placeholders of a name, mostly by ports that the Service has.
func (m *maker) fill(name string) string {
	if !strings.Contains(name, "{") {
		return name
	}
	port := &m.svc.Spec.Ports[m.r.IntN(len(m.svc.Spec.Ports))]
	portName := port.Name
	if portName == "" {
		portName = "http"
	}
	replacements := document.Bindings{
		check.PlacePort: strconv.Itoa(int(port.Port)), check.PlacePortName: portName, check.PlacePortRef: m.portRef(),
		check.PlaceProtocol: m.one([]string{"tcp", "udp", "TCP", "UDP"}), check.PlaceIndex: strconv.Itoa(m.r.IntN(3)),
		check.PlaceAny: m.one([]string{"a", "web-1", "0", "TCP", "TLS", "UDP"}),
	}
	return replacements.Expand(name)
}

// portRef returns the number or name of a port of the Service, or of one that it does not have.
func (m *maker) portRef() string {
	port := m.svc.Spec.Ports[m.r.IntN(len(m.svc.Spec.Ports))]
	switch {
	case m.chance(8):
		return "65000"
	case port.Name != "" && m.chance(2):
		return port.Name
	}
	return strconv.Itoa(int(port.Port))
}

// satisfy sets what an annotation depends on, so that its value has an effect.
func (m *maker) satisfy(e *library.Entry, depth int) {
	for _, c := range e.ReadIf {
		m.makeHold(c, depth)
	}
	for _, q := range e.Requires {
		if len(q.Any) > 0 {
			m.makeHold(q.Any[m.r.IntN(len(q.Any))], depth)
		}
	}
}

// makeHold changes the Service so that a condition probably holds. Depth bounds chains of conditions.
func (m *maker) makeHold(c document.Condition, depth int) {
	if depth == 0 {
		return
	}
	if c.Field != "" {
		m.setField(c)
		return
	}
	key := m.fill(c.Key)
	e, _, known := m.g.catalog.Contents().Find(key)
	switch {
	case !known:
		return
	case c.Set != nil && !*c.Set:
		for _, name := range append(e.Names(), key) {
			delete(m.svc.Annotations, name)
		}
		return
	}
	if _, set := m.svc.Annotations[key]; set && !c.ComparesValues() {
		return
	}
	m.satisfy(e, depth-1)
	switch {
	case c.Is != nil:
		m.set(key, m.one(c.Is))
	case c.Only != nil:
		m.set(key, m.one(c.Only))
	default:
		for range 5 {
			m.set(key, m.valid(&e.Type, e.Valid))
			if !slices.Contains(c.Not, m.svc.Annotations[key]) {
				return
			}
		}
		delete(m.svc.Annotations, key) // for example a boolean that must not be true
	}
}
