package loadbalancer

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/annotation"
)

// Reading is the value of a key that holds for a Service, or for some of its listeners.
type Reading struct {
	// Field is the path of the annotation that says so, or of the plain key where none does.
	Field string
	// Raw is the value as written, or the default.
	Raw string
	// Value is not valid where what is written is malformed, or where there is neither annotation nor default.
	Value annotation.Value
	// Set tells whether an annotation says so.
	Set bool
	// Listeners are those that the value holds for; empty for a key of the whole load balancer, and for an annotation that
	// governs none.
	Listeners []string
}

// Readings are the values that hold for a Service of ours, read once for many questions.
type Readings struct{ s *settings }

// Read reads the annotations of a Service of ours.
func Read(svc *corev1.Service) *Readings { return &Readings{read(svc)} }

// Of gives the values of a plain key: one for each annotation that is the key or its form for a port, and those that hold by
// default for what no annotation governs. Where the key has no effect it has no default either, nor where the Service is so
// wrong that the value cannot be told, which Review reports.
func (r *Readings) Of(d *annotation.Descriptor) []Reading {
	s := r.s
	var all []Reading
	for _, one := range s.byName[d.Name] {
		reading := Reading{Field: one.field(), Raw: one.raw, Set: true}
		if one.valid {
			reading.Value = one.value
		}
		for _, i := range one.governs {
			reading.Listeners = append(reading.Listeners, s.listeners[i].key())
		}
		all = append(all, reading)
	}
	if s.doubtful[d.Name] {
		return all
	}
	if d.PortForm {
		return append(all, s.listenerDefaults(d)...)
	}
	if len(all) == 0 && s.matters(d) {
		all = append(all, s.byDefault(d, s.serviceDefault(d.Name)))
	}
	return all
}

// MaxQPS is the sum of the limits of all listeners, as far as they can be told.
func (r *Readings) MaxQPS() int64 {
	var sum int64
	for i := range r.s.listeners {
		if value, ok := r.s.value(keyMaxQPS, i); ok && value.IsValid() {
			sum += value.Int()
		}
	}
	return sum
}

// listenerDefaults groups the listeners without an annotation by the value that they have instead.
func (s *settings) listenerDefaults(d *annotation.Descriptor) []Reading {
	var all []Reading
	for i, l := range s.listeners {
		if l.sctp || l.undecided[d.Name] || s.governor(d.Name, i) != nil || !s.applies(d, i) {
			continue
		}
		value := known().defaults[d.Name]
		if d.Name == keyProtocol {
			value, _ = d.Parse(l.defaultProtocol()) // one of the key's own words
		}
		reading := s.byDefault(d, value)
		at := slices.IndexFunc(all, func(other Reading) bool { return other.Raw == reading.Raw })
		if at < 0 {
			at = len(all)
			all = append(all, reading)
		}
		all[at].Listeners = append(all[at].Listeners, l.key())
	}
	return all
}

func (s *settings) byDefault(d *annotation.Descriptor, value annotation.Value) Reading {
	reading := Reading{Field: annotations.Key(d.Key).String(), Value: value}
	if value.IsValid() {
		reading.Raw = d.Default
		if d.Name == keyProtocol || d.Name == keyIPMode {
			// Their defaults depend on the Service, and are sentences.
			reading.Raw = value.String()
		}
	}
	return reading
}

// serviceDefault is the value of a key without port form that no annotation sets.
func (s *settings) serviceDefault(name string) annotation.Value {
	if name != keyIPMode {
		return known().defaults[name]
	}
	value, _ := known().byName[name].Parse(s.defaultIPMode()) // one of the key's own words
	return value
}

// matters tells whether a key without port form has an effect on the Service.
func (s *settings) matters(d *annotation.Descriptor) bool {
	if d.Name == keyIPMode {
		// A published name has no mode.
		return len(s.byName[keyHostname]) == 0
	}
	if d.Applies != appliesPrivate {
		return true
	}
	network, _, ok := s.serviceValue(keyNetworkType)
	return ok && network.String() == "private"
}

// Lookup finds the description of a plain key of the DLB.
func Lookup(key string) (*annotation.Descriptor, bool) {
	name, ok := strings.CutPrefix(key, Prefix)
	if !ok {
		return nil, false
	}
	d, ok := known().byName[name]
	return d, ok
}

// NearestKey is the plain key that was probably meant by one under Prefix that is none.
func NearestKey(key string) string {
	nearest, _ := read(&corev1.Service{}).nearestKey(key)
	return nearest.Key
}
