package catalog

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/catalog/spec"
)

// scope is what a condition is evaluated for: the whole Service or one of its ports, with the values of placeholders.
type scope struct {
	bindings document.Bindings
	// port is an index in spec.ports plus one; 0 is the Service as a whole.
	port int
	// certain is true if typos do not matter: a value that is not set is then the default.
	certain bool
}

var service = scope{}

// field appends the values of a field; only those of the port, if the scope has one. known is false if the object is not a
// Service, and its values are not known.
func (v *View) field(values []string, sc scope, path string) (all []string, known bool) {
	switch {
	case len(v.catalog.Kinds) > 0:
		all, known = v.set.fields[path]
		return all, known
	case sc.port > 0:
		return spec.AppendPort(values, v.Service, path, sc.port-1), true
	}
	return spec.Append(values, v.Service, path), true
}

func (s scope) atPort(port int) scope {
	return scope{bindings: s.bindings, port: port + 1, certain: s.certain}
}

// isSet reports whether an annotation sets a name. That is not known if another annotation is probably a typo of it.
func (v *View) isSet(name string, sc scope) (set, known bool) {
	name = sc.bindings.Expand(name)
	e, found := v.ByName[name]
	switch {
	case !found || !e.PortForm:
		set = slices.ContainsFunc(v.settings, func(s *Setting) bool { return s.hasValue() && s.belongsTo(name) })
	case v.governed(e) == nil:
	case sc.port > 0:
		s := v.governed(e)[sc.port-1]
		if s == ambiguous {
			return false, false
		}
		set = s != nil
	default:
		set = slices.ContainsFunc(v.governed(e), func(s *Setting) bool { return s != nil })
	}
	return set, set || !v.isUncertain(e)
}

// values returns the values of a name: those that are set, else the default. known is false if a value is invalid or
// uncertain; the result then holds only the values of ports where they are known.
func (v *View) values(name string, sc scope) (values []string, known bool) {
	name = sc.bindings.Expand(name)
	e, found := v.ByName[name]
	if found && e.PortForm {
		return v.portValues(e, sc)
	}
	set := false
	for _, s := range v.settings {
		if !s.hasValue() || !s.belongsTo(name) {
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
	case !sc.certain && v.isUncertain(e):
		return nil, false
	}
	d, known := v.defaultOf(e, sc)
	return d.Value.List, known
}

// portValues returns the values at one port, or at all ports to which the annotation applies.
func (v *View) portValues(e *library.Entry, sc scope) (values []string, known bool) {
	if sc.port > 0 {
		value, known := v.valueAt(e, sc.port-1)
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
		value, knownHere := v.valueAt(e, i)
		known = known && knownHere
		if knownHere {
			values = append(values, value.List...)
		}
	}
	return values, known
}

// valueAt returns the value of an annotation with a form for ports at one port. known is false if the value is invalid,
// ambiguous, uncertain, or impossible at the port.
func (v *View) valueAt(e *library.Entry, port int) (value annotation.Value, known bool) {
	switch s := v.governor(e, port); s {
	case nil:
	case ambiguous:
		return annotation.Value{}, false
	default:
		return s.Value, s.Err == nil && v.possible(s, port)
	}
	if v.isUncertain(e) {
		return annotation.Value{}, false
	}
	d, known := v.defaultOf(e, service.atPort(port))
	return d.Value, known
}

// governor returns the setting that governs a port, which may be ambiguous; nil if there is none.
func (v *View) governor(e *library.Entry, port int) *Setting {
	if governing := v.governed(e); len(governing) > 0 {
		return governing[port]
	}
	return nil
}

// governed returns the settings that govern the ports; nil if the Service does not set the entry.
func (v *View) governed(e *library.Entry) []*Setting {
	if v.governing == nil {
		return nil
	}
	return v.governing[e.Form]
}

// possible reports whether a value satisfies the requirements for the port itself. For example, http is not possible at
// a UDP port.
func (v *View) possible(s *Setting, port int) bool {
	return !slices.ContainsFunc(s.Requirements, func(q *library.Requirement) bool {
		ofPort := func(c document.Condition) bool { return spec.OfPorts(c.Field) }
		ofKey := func(c document.Condition) bool { return c.Key != "" }
		return !q.SomePort && slices.ContainsFunc(q.Any, ofPort) && !slices.ContainsFunc(q.Any, ofKey) &&
			v.breaks(s, q, service.atPort(port))
	})
}

// defaultOf returns the default that applies. It is not known if there are defaults, but the conditions of none hold.
func (v *View) defaultOf(e *library.Entry, sc scope) (d library.DefaultValue, known bool) {
	for _, d := range e.DefaultValues {
		if v.all(d.Conditions, sc) {
			return d, true
		}
	}
	return library.DefaultValue{}, len(e.DefaultValues) == 0
}

// appliesAt reports whether an annotation may have an effect at a port. It is true if that is not known.
func (v *View) appliesAt(e *library.Entry, port int) bool {
	return v.failing(e, service.atPort(port)) < 0
}

// failing returns the index of the first requirement that keeps an annotation from applying, or -1.
func (v *View) failing(e *library.Entry, sc scope) int {
	return slices.IndexFunc(e.Applies, func(q *library.Requirement) bool { return v.none(q.Any, sc) })
}

// belongsTo reports whether the setting belongs to a name, which may be the name of a family, or have its placeholders
// filled in.
func (s *Setting) belongsTo(name string) bool {
	return s.suffix == "" && (s.name == name || s.Name == name)
}

// Value returns the value of an annotation of the Service as a whole, or its default; the empty Value if there is none.
func (v *View) Value(key string) annotation.Value {
	for _, s := range v.settingsOf(key, nil) {
		return s.Value
	}
	d, _ := v.defaultOf(v.ByName[key], service)
	return d.Value
}

// PortValue returns the value of an annotation with a form for ports, at the port with an index in spec.ports. known is
// false if the Service has a finding about the value, or the catalog does not know the key. If the annotation does not
// apply, it returns the empty Value.
func (v *View) PortValue(key string, port int) (value annotation.Value, known bool) {
	e, found := v.ByName[key]
	if !found {
		return annotation.Value{}, false
	}
	value, known = v.valueAt(e, port)
	if known && !v.appliesAt(e, port) {
		return annotation.Value{}, true
	}
	return value, known
}

// Settings returns the annotations with the key or its forms for ports.
func (v *View) Settings(key string) []*Setting {
	var found []*Setting
	for _, s := range v.settings {
		if s.is(key) {
			found = append(found, s)
		}
	}
	return found
}

// is reports whether the setting is that of a key, or of its form for a port.
func (s *Setting) is(key string) bool { return s.name == key && (s.suffix == "" || s.PortForm) }

// Governor returns the annotation that sets the value of a key at a port; nil if there is none, or it is ambiguous.
func (v *View) Governor(key string, port int) *Setting {
	if s := v.governor(v.ByName[key], port); s != ambiguous {
		return s
	}
	return nil
}

// Ports returns the indices in spec.ports that the suffix of the setting's key refers to; none for a plain key.
func (s *Setting) Ports() []int { return s.ports }

// Holding is a value of a key that applies to a Service, or to some of its listeners.
type Holding struct {
	// Key is the annotation that sets the value, or the plain key if the value is a default.
	Key string
	// Raw is the value as written, or the default.
	Raw string
	// Value is nil if Raw is invalid, or if there is neither annotation nor default.
	Value *annotation.Value
	// Set is true if an annotation sets the value.
	Set bool

	svc *corev1.Service
	// ports are the indices of the ports that the value applies to; empty for a key of the whole load balancer, and for
	// an annotation that governs no port.
	ports []int
}

// Listeners returns the listeners that the value applies to, such as tcp/443; none for a key of the whole load balancer,
// and for an annotation that governs no port.
func (h *Holding) Listeners() []string {
	var listeners []string
	for _, i := range h.ports {
		listeners = append(listeners, spec.Listener(h.svc.Spec.Ports[i]))
	}
	return listeners
}

// Holding returns the values of a plain key: one for each annotation with the key or its form for a port, and the
// defaults of ports that no annotation governs. There is no default if the key has no effect, or if the value is not
// known because of other mistakes in the Service.
func (v *View) Holding(key string) iter.Seq[Holding] {
	return func(yield func(Holding) bool) {
		set := false
		for _, s := range v.settings {
			if !s.is(key) {
				continue
			}
			h := Holding{Key: s.Key, Raw: s.Raw, Set: true, svc: v.Service, ports: s.governs}
			if s.Err == nil {
				h.Value = &s.Value
			}
			if set = true; !yield(h) {
				return
			}
		}
		e := v.ByName[key]
		switch {
		case v.isUncertain(e):
		case e.PortForm:
			for _, h := range v.holdingByDefault(e) {
				if !yield(h) {
					return
				}
			}
		case !set && v.all(e.DefaultIf, service) &&
			!slices.ContainsFunc(e.Applies, func(q *library.Requirement) bool { return !v.any(q.Any, service) }):
			if d, known := v.defaultOf(e, service); known {
				yield(holdingOf(d, v.Service, key))
			}
		}
	}
}

func holdingOf(d library.DefaultValue, svc *corev1.Service, key string) Holding {
	h := Holding{Key: key, Raw: d.Raw, svc: svc}
	if d.Raw != "" {
		h.Value = &d.Value
	}
	return h
}

// holdingByDefault groups the ports without an annotation by their default.
func (v *View) holdingByDefault(e *library.Entry) []Holding {
	var all []Holding
	for i, p := range v.Service.Spec.Ports {
		if v.governor(e, i) != nil || !v.appliesAt(e, i) {
			continue
		}
		d, known := v.defaultOf(e, service.atPort(i))
		if !known || p.Protocol == corev1.ProtocolSCTP {
			continue
		}
		at := slices.IndexFunc(all, func(other Holding) bool { return other.Raw == d.Raw })
		if at < 0 {
			at = len(all)
			all = append(all, holdingOf(d, v.Service, e.Name))
		}
		all[at].ports = append(all[at].ports, i)
	}
	return all
}
