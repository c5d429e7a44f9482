package catalog

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/catalog/spec"
)

// scope is what a question is about: the whole Service or one of its ports, and what the placeholders of a family stand for.
type scope struct {
	bindings bindings
	// port is an index in spec.ports plus one; 0 is the Service as a whole.
	port int
	// undoubted is true if annotations that were probably meant to be others do not matter.
	undoubted bool
}

var service = scope{}

// field returns the values of a field, of one port if the scope is one.
func (s scope) field(svc *corev1.Service, path string) []string {
	if s.port > 0 {
		return spec.PortValues(svc, path, s.port-1)
	}
	return spec.Values(svc, path)
}

func (s scope) at(port int) scope {
	return scope{bindings: s.bindings, port: port + 1, undoubted: s.undoubted}
}

// isSet reports whether an annotation sets a name. It is not known where another annotation was probably meant to.
func (v *View) isSet(name string, sc scope) (set, known bool) {
	name = sc.bindings.expand(name)
	e, found := v.byName[name]
	switch {
	case !found || !e.PortForm:
		set = slices.ContainsFunc(v.settings, func(s *Setting) bool { return s.has() && s.of(name) })
	case v.governing[e] == nil:
	case sc.port > 0:
		s := v.governing[e][sc.port-1]
		if s == ambiguous {
			return false, false
		}
		set = s != nil
	default:
		set = slices.ContainsFunc(v.governing[e], func(s *Setting) bool { return s != nil })
	}
	return set, set || !v.isDoubtful(e)
}

// values returns what holds for a name: what is set, else the default. known is false where a value is invalid or doubtful, so
// that it cannot be known; the values are then those of the ports where they are known.
func (v *View) values(name string, sc scope) (values []string, known bool) {
	name = sc.bindings.expand(name)
	e, found := v.byName[name]
	if found && e.PortForm {
		return v.portValues(e, sc)
	}
	set := false
	for _, s := range v.settings {
		if !s.has() || !s.of(name) {
			continue
		}
		if s.Err != nil {
			return nil, false
		}
		if !set {
			values = s.Value.List
		} else {
			values = append(slices.Clip(values), s.Value.List...)
		}
		set = true
	}
	switch {
	case set || !found:
		return values, true
	case !sc.undoubted && v.isDoubtful(e):
		return nil, false
	}
	d, known := v.defaultOf(e, sc)
	return d.value.List, known
}

// portValues returns the values at one port, or at all ports to which the annotation applies.
func (v *View) portValues(e *entry, sc scope) (values []string, known bool) {
	if sc.port > 0 {
		value, _, known := v.at(e, sc.port-1)
		if !known {
			return nil, false
		}
		return value.List, true
	}
	known = true
	for i := range v.Service.Spec.Ports {
		if !v.appliesAt(e, i) {
			continue
		}
		value, _, knownHere := v.at(e, i)
		known = known && knownHere
		if knownHere {
			values = append(values, value.List...)
		}
	}
	return values, known
}

// at returns the value of an annotation with a form for ports at one port, and the setting that it comes from, if any. It is not
// known where that is invalid, ambiguous, doubtful, or impossible at the port.
func (v *View) at(e *entry, port int) (value annotation.Value, s *Setting, known bool) {
	if governing := v.governing[e]; governing != nil {
		switch s := governing[port]; s {
		case nil:
		case ambiguous:
			return annotation.Value{}, nil, false
		default:
			return s.Value, s, s.Err == nil && v.possible(s, port)
		}
	}
	if v.isDoubtful(e) {
		return annotation.Value{}, nil, false
	}
	d, known := v.defaultOf(e, service.at(port))
	return d.value, nil, known
}

// possible reports whether a value breaks no requirement about the port itself, such as udp for a TCP port.
func (v *View) possible(s *Setting, port int) bool {
	return !slices.ContainsFunc(s.Requires, func(q Requirement) bool {
		ofPort := func(c Condition) bool { return spec.OfPorts(c.Field) }
		return !q.SomePort && slices.ContainsFunc(q.Any, ofPort) && !slices.ContainsFunc(q.Any, func(c Condition) bool { return c.Key != "" }) &&
			v.breaks(s, &q, service.at(port))
	})
}

// defaultOf returns the default that holds. It is not known where there are defaults and the conditions of none hold.
func (v *View) defaultOf(e *entry, sc scope) (d defaultValue, known bool) {
	for _, d := range e.defaults {
		if v.all(d.conditions, sc) {
			return d, true
		}
	}
	return defaultValue{}, len(e.defaults) == 0
}

// appliesAt reports whether an annotation may have an effect at a port. It is true where that cannot be known.
func (v *View) appliesAt(e *entry, port int) bool { return v.failing(e, service.at(port)) < 0 }

// failing returns the index of the first requirement that keeps an annotation from applying, or -1.
func (v *View) failing(e *entry, sc scope) int {
	return slices.IndexFunc(e.applies, func(q *Requirement) bool { return v.none(q.Any, sc) })
}

// of reports whether the setting is of a name, which may be a family's, with placeholders filled in as far as they are bound.
func (s *Setting) of(name string) bool { return !s.portForm && (s.name == name || s.Name == name) }

// Value returns the value of an annotation that belongs to the Service as a whole, by its key; the empty Value without one.
func (v *View) Value(key string) annotation.Value {
	for _, s := range v.of(key, nil) {
		return s.Value
	}
	d, _ := v.defaultOf(v.byName[key], service)
	return d.value
}

// PortValue returns the value of an annotation with a form for ports, at the port with an index in spec.ports. It is not known
// where the Service has a finding about it. Where the annotation does not apply, it is the empty Value.
func (v *View) PortValue(key string, port int) (value annotation.Value, known bool) {
	e := v.byName[key]
	value, _, known = v.at(e, port)
	if known && !v.appliesAt(e, port) {
		return annotation.Value{}, true
	}
	return value, known
}

// Settings returns the annotations that are the key or its form for a port.
func (v *View) Settings(key string) []*Setting {
	var found []*Setting
	for _, s := range v.settings {
		if s.name == key && (!s.portForm || s.PortForm) {
			found = append(found, s)
		}
	}
	return found
}

// Governor returns the annotation that a port takes its value of a key from; nil if there is none or that is ambiguous.
func (v *View) Governor(key string, port int) *Setting {
	if governing := v.governing[v.byName[key]]; governing != nil && governing[port] != ambiguous {
		return governing[port]
	}
	return nil
}

// Ports returns the indices in spec.ports that the suffix of the setting's key means; none for a plain key.
func (s *Setting) Ports() []int { return s.ports }

// Holding is a value of a key that holds for a Service, or for some of its listeners.
type Holding struct {
	// Key is the annotation that sets the value, or the plain key where none does.
	Key string
	// Raw is the value as written, or the default.
	Raw string
	// Value is nil if Raw is invalid, or if there is neither annotation nor default.
	Value *annotation.Value
	// Set is true if an annotation sets the value.
	Set bool
	// Listeners are those that the value holds for, such as tcp/443; empty for a key of the whole load balancer, and for an
	// annotation that governs none.
	Listeners []string
}

// Holding returns the values of a plain key that hold: one for each annotation that is the key or its form for a port, and the
// defaults of what no annotation governs. Where the key has no effect it has no default either, nor where the Service is so
// wrong that the value cannot be known.
func (v *View) Holding(key string) []Holding {
	var all []Holding
	for _, s := range v.Settings(key) {
		h := Holding{Key: s.Key, Raw: s.Raw, Set: true}
		if s.Err == nil {
			h.Value = &s.Value
		}
		for _, i := range s.governs {
			h.Listeners = append(h.Listeners, spec.Listener(v.Service.Spec.Ports[i]))
		}
		all = append(all, h)
	}
	e := v.byName[key]
	switch {
	case v.isDoubtful(e):
	case e.PortForm:
		all = append(all, v.holdingByDefault(e)...)
	case len(all) == 0 && v.all(e.DefaultIf, service) &&
		!slices.ContainsFunc(e.applies, func(q *Requirement) bool { return !v.any(q.Any, service) }):
		if d, known := v.defaultOf(e, service); known {
			all = append(all, d.holding(key))
		}
	}
	return all
}

func (d *defaultValue) holding(key string) Holding {
	h := Holding{Key: key, Raw: d.raw}
	if d.raw != "" {
		h.Value = &d.value
	}
	return h
}

// holdingByDefault groups the ports without an annotation by the default that they have instead.
func (v *View) holdingByDefault(e *entry) []Holding {
	var all []Holding
	for i, p := range v.Service.Spec.Ports {
		if governing := v.governing[e]; governing != nil && governing[i] != nil || !v.appliesAt(e, i) {
			continue
		}
		d, known := v.defaultOf(e, service.at(i))
		if !known || p.Protocol == corev1.ProtocolSCTP {
			continue
		}
		at := slices.IndexFunc(all, func(other Holding) bool { return other.Raw == d.raw })
		if at < 0 {
			at = len(all)
			all = append(all, d.holding(e.Name))
		}
		all[at].Listeners = append(all[at].Listeners, spec.Listener(p))
	}
	return all
}
