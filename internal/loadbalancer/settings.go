package loadbalancer

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/rules"
)

var annotations = field.NewPath("metadata", "annotations")

// setting is one annotation of the Service that names a known key.
type setting struct {
	*annotation.Descriptor
	// key is the annotation's whole key, with the port form's suffix if it has one.
	key, raw string
	value    annotation.Value
	// valid tells whether raw could be read as value.
	valid bool
	// suffix is the port's number or name; named tells which; ports are what it means, by index.
	suffix string
	named  bool
	ports  []int
	// governs are the listeners, by index, that take their value from this setting.
	governs []int
}

func (s *setting) portForm() bool { return s.suffix != "" }

func (s *setting) field() string { return annotations.Key(s.key).String() }

// settings are a Service's annotations as far as they are the DLB's, sorted by key.
type settings struct {
	svc       *corev1.Service
	listeners []port
	byName    map[string][]*setting
	all       []*setting
	findings  []rules.Finding
}

// read parses every annotation under the prefix and reports what is wrong with each alone.
func read(svc *corev1.Service) *settings {
	s := &settings{svc: svc, listeners: listenersOf(svc), byName: map[string][]*setting{}}
	var keys []string
	for key := range svc.Annotations {
		if strings.HasPrefix(key, Prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		if one := s.readOne(key, svc.Annotations[key]); one != nil {
			s.byName[one.Name] = append(s.byName[one.Name], one)
			s.all = append(s.all, one)
		}
	}
	s.assign()
	return s
}

func (s *settings) readOne(key, raw string) *setting {
	name, suffix, hasSuffix := strings.Cut(strings.TrimPrefix(key, Prefix), ".")
	d, found := known().byName[name]
	switch {
	case !found:
		s.report(unknownKey(s, key, name, suffix, raw))
		return nil
	case hasSuffix && !d.PortForm:
		s.report(rules.Finding{
			ID: idPortForm, Type: field.ErrorTypeInvalid, Field: annotations.Key(key).String(), Value: raw,
			Message: "the key " + d.Key + " has no form for single ports",
			Remedy:  "write " + d.Key + ", which is of the whole load balancer",
		})
		return nil
	}
	one := &setting{Descriptor: d, key: key, raw: raw, suffix: suffix}
	if hasSuffix {
		one.ports, one.named = s.resolve(suffix)
		if len(one.ports) == 0 {
			s.report(unknownPort(s, one))
		}
	}
	var err error
	if one.value, err = d.Parse(raw); err != nil {
		s.report(invalidValue(one, err))
	}
	one.valid = err == nil
	return one
}

// resolve finds the ports that a suffix means: digits are a port number, anything else is a port's name.
func (s *settings) resolve(suffix string) (ports []int, named bool) {
	named = suffix == "" || strings.ContainsFunc(suffix, func(r rune) bool { return r < '0' || r > '9' })
	for i, l := range s.listeners {
		if named && suffix == l.name && suffix != "" || !named && suffix == l.number() {
			ports = append(ports, i)
		}
	}
	return ports, named
}

// assign decides which setting governs which listener: its own port form, else the plain key.
func (s *settings) assign() {
	for _, d := range known().listener {
		var plain *setting
		var forms []*setting
		for _, one := range s.byName[d.Name] {
			if one.portForm() {
				forms = append(forms, one)
			} else if one.key == d.Key {
				plain = one
			}
		}
		for i := range s.listeners {
			var own []*setting
			for _, form := range forms {
				if slices.Contains(form.ports, i) {
					own = append(own, form)
				}
			}
			switch {
			case len(own) > 1:
				s.report(ambiguous(own, s.listeners[i]))
				// Neither governs: what depends on the value is left alone until the user has decided.
				s.listeners[i].undecided = append(s.listeners[i].undecided, d.Name)
			case len(own) == 1:
				own[0].governs = append(own[0].governs, i)
			case plain != nil:
				plain.governs = append(plain.governs, i)
			}
		}
	}
}

// governor is the setting that gives the listener its value of a key, or nil where the default holds.
func (s *settings) governor(name string, listener int) *setting {
	for _, one := range s.byName[name] {
		if slices.Contains(one.governs, listener) {
			return one
		}
	}
	return nil
}

// value is the listener's value of a key, from its setting or the default, and whether it is known: a setting that is
// malformed or ambiguous leaves it unknown, and a key without default may have none.
func (s *settings) value(name string, listener int) (annotation.Value, bool) {
	if slices.Contains(s.listeners[listener].undecided, name) {
		return annotation.Value{}, false
	}
	if one := s.governor(name, listener); one != nil {
		return one.value, one.valid
	}
	return known().defaults[name], true
}

// serviceValue is the same for a key without port form.
func (s *settings) serviceValue(name string) (value annotation.Value, explicit *setting, ok bool) {
	if all := s.byName[name]; len(all) > 0 {
		return all[0].value, all[0], all[0].valid
	}
	return known().defaults[name], nil, true
}

// protocol is what the listener speaks.
func (s *settings) protocol(listener int) (string, bool) {
	value, ok := s.value(keyProtocol, listener)
	if !ok || value.IsValid() {
		return value.String(), ok
	}
	return s.listeners[listener].defaultProtocol(), true
}

func (s *settings) report(f rules.Finding) {
	if f.Severity == "" {
		f.Severity = rules.Error
	}
	s.findings = append(s.findings, f)
}
