package loadbalancer

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/finding"
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
	// undecided tells that another form of the key competes with this one for a listener.
	undecided bool
}

func (s *setting) field() string { return annotations.Key(s.key).String() }

// settings are a Service's annotations as far as they are the DLB's, sorted by key.
type settings struct {
	svc       *corev1.Service
	listeners []port
	byName    map[string][]*setting
	all       []*setting
	// byNumber and byPortName are the indices of the listeners that a suffix means.
	byNumber, byPortName map[string][]int
	// doubtful are the keys that a misspelt one was probably meant to set: what depends on their values is not judged, so
	// that one slip is one finding.
	doubtful map[string]bool
	// unknown counts the keys that are not known.
	unknown int
	// sources are the ranges that may connect.
	sources  []netip.Prefix
	findings []finding.Finding
}

// read parses every annotation under the prefix and reports what is wrong with each alone.
func read(svc *corev1.Service) *settings {
	s := &settings{
		svc: svc, listeners: listenersOf(svc), byName: map[string][]*setting{},
		byNumber: map[string][]int{}, byPortName: map[string][]int{}, doubtful: map[string]bool{},
	}
	for i, l := range s.listeners {
		s.byNumber[l.number()] = append(s.byNumber[l.number()], i)
		if l.name != "" {
			s.byPortName[l.name] = append(s.byPortName[l.name], i)
		}
	}
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
		s.report(s.unknownKey(key, raw))
		return nil
	case hasSuffix && !d.PortForm:
		s.doubtful[name] = true
		s.report(finding.Finding{
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
			s.doubtful[name] = true
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
	if suffix == "" || strings.ContainsFunc(suffix, notDigit) {
		return s.byPortName[suffix], true
	}
	return s.byNumber[suffix], false
}

// assign decides which setting governs which listener: its own port form, else the plain key.
func (s *settings) assign() {
	for name, all := range s.byName {
		var plain *setting
		own := map[int][]*setting{}
		for _, one := range all {
			if one.key == one.Key {
				plain = one
			}
			for _, i := range one.ports {
				own[i] = append(own[i], one)
			}
		}
		for i := range s.listeners {
			l := &s.listeners[i]
			switch forms := own[i]; {
			case len(forms) > 1:
				s.report(ambiguous(forms, *l))
				// Neither governs: what depends on the value is left alone until the user has decided.
				l.undecided[name] = true
				for _, one := range all {
					one.undecided = true
				}
			case len(forms) == 1:
				l.govern(forms[0], i)
			case plain != nil && plain.PortForm:
				l.govern(plain, i)
			}
		}
	}
}

// governor is the setting that gives the listener its value of a key, or nil where the default holds.
func (s *settings) governor(name string, listener int) *setting {
	return s.listeners[listener].governors[name]
}

// value is the listener's value of a key, from its setting or the default, and whether it is known: a setting that is
// malformed or ambiguous leaves it unknown, and a key without default may have none.
func (s *settings) value(name string, listener int) (annotation.Value, bool) {
	if s.listeners[listener].undecided[name] {
		return annotation.Value{}, false
	}
	if one := s.governor(name, listener); one != nil {
		return one.value, one.valid
	}
	return known().defaults[name], !s.doubtful[name]
}

// serviceValue is the same for a key without port form.
func (s *settings) serviceValue(name string) (value annotation.Value, explicit *setting, ok bool) {
	if all := s.byName[name]; len(all) > 0 {
		return all[0].value, all[0], all[0].valid
	}
	return known().defaults[name], nil, true
}

// protocol is what the listener speaks. One that does not fit its port is as good as none.
func (s *settings) protocol(listener int) (string, bool) {
	l := s.listeners[listener]
	value, ok := s.value(keyProtocol, listener)
	switch {
	case !ok:
		return "", false
	case value.IsValid():
		return value.String(), l.fits(value.String())
	}
	return l.defaultProtocol(), true
}

func (s *settings) report(f finding.Finding) {
	if f.Severity == "" {
		f.Severity = finding.Error
	}
	s.findings = append(s.findings, f)
}
