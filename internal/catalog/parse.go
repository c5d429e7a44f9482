package catalog

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/catalog/spec"
)

// Parsed is a Service whose annotations have been parsed, once, by every catalog of a Set. It never changes; validation,
// defaulting, policies and the desired load balancer share it.
type Parsed struct {
	// Service is the Service as it was given. It must not be changed.
	Service *corev1.Service

	set  Set
	keys []string
	// views are those of the set's catalogs, in their order.
	views []*View
}

// Parse parses the annotations of a Service of type LoadBalancer; nothing else has anything to parse.
func (s Set) Parse(svc *corev1.Service) *Parsed {
	p := &Parsed{Service: svc, set: s}
	if !p.LoadBalancer() {
		return p
	}
	p.keys = slices.Sorted(maps.Keys(svc.Annotations))
	for _, c := range s.catalogs {
		p.views = append(p.views, newView(c, p, nil))
	}
	return p
}

// LoadBalancer reports whether there is a Service and it is of type LoadBalancer.
func (p *Parsed) LoadBalancer() bool {
	return p != nil && p.Service != nil && p.Service.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// With returns the Service with other values of some annotations; an empty map returns p. Only these are parsed.
func (p *Parsed) With(annotations map[string]string) *Parsed {
	if len(annotations) == 0 || !p.LoadBalancer() {
		return p
	}
	svc := *p.Service
	svc.Annotations = make(map[string]string, len(svc.Annotations)+len(annotations))
	maps.Copy(svc.Annotations, p.Service.Annotations)
	maps.Copy(svc.Annotations, annotations)
	return p.replace(&svc, func(key string) bool { _, given := annotations[key]; return !given })
}

// Without returns the Service without some annotations. Nothing is parsed.
func (p *Parsed) Without(keys ...string) *Parsed {
	if !p.LoadBalancer() {
		return p
	}
	svc := *p.Service
	svc.Annotations = maps.Clone(svc.Annotations)
	for _, key := range keys {
		delete(svc.Annotations, key)
	}
	return p.replace(&svc, func(string) bool { return true })
}

// Recognised returns the Service without the keys of Quaymaster's own controller that are unknown. They are errors whatever else the
// Service has, and leave open what it was meant to have.
func (p *Parsed) Recognised() *Parsed {
	var unknown []string
	for _, v := range p.views {
		unknown = append(unknown, v.unknown...)
	}
	if len(unknown) == 0 {
		return p
	}
	return p.Without(unknown...)
}

// replace takes over what has been parsed of the annotations that are kept.
func (p *Parsed) replace(svc *corev1.Service, kept func(key string) bool) *Parsed {
	other := &Parsed{Service: svc, set: p.set, keys: slices.Sorted(maps.Keys(svc.Annotations))}
	for _, v := range p.views {
		known := &before{settings: map[string]*Setting{}, suggestions: v.suggested}
		for _, s := range v.settings {
			if kept(s.Key) {
				known.settings[s.Key] = s
			}
		}
		other.views = append(other.views, newView(v.catalog, other, known))
	}
	return other
}

// before is what is known of a Service whose annotations are replaced in part.
type before struct {
	settings    map[string]*Setting
	suggestions map[string]suggestion
}

// View returns the Service as the controller of a catalog sees it; nil if the controller does not own it.
func (p *Parsed) View(name string) *View {
	for _, v := range p.views {
		if v.catalog.Name == name && v.owned {
			return v
		}
	}
	return nil
}

// Own returns the Service as Quaymaster's own controller sees it; nil if it is not in the set or does not own the Service.
func (p *Parsed) Own() *View {
	for _, v := range p.views {
		if v.catalog.Own && v.owned {
			return v
		}
	}
	return nil
}

// View is a Service as one controller sees it.
type View struct {
	*contents
	// Service is the Service. It must not be changed.
	Service *corev1.Service

	catalog *Catalog
	// class is the loadBalancerClass that Quaymaster's own controller serves.
	class string
	owned bool
	// settings are the annotations that the catalog knows, sorted by key.
	settings []*Setting
	// governing are the settings that govern each port, by entry with a form for ports; nil or absent where none does.
	governing map[*entry][]*Setting
	// doubtful are the entries that a misspelt key was probably meant for. What depends on their values is not reported, so that
	// one slip is one finding.
	doubtful map[*entry]bool
	// suggested are the keys that the unknown ones were probably meant to be, as soon as a question depends on them.
	suggested map[string]suggestion
	// unknown are the keys under the prefixes of Quaymaster's own controller that it does not read.
	unknown []string
	// portsByNumber and portsByName are the indices of the ports that a suffix means, once one has been seen.
	portsByNumber, portsByName map[string][]int
}

// Setting is one annotation of a Service.
type Setting struct {
	*entry
	// Key and Raw are the annotation as it is written.
	Key, Raw string
	// Value is what Raw means; Err is why it is invalid, and completes "must be …" after what is expected.
	Value annotation.Value
	Err   error

	// name is the key's name where it is an alias: the name of the entry with the placeholders filled in.
	name     string
	bindings bindings
	// shadowed is true if the name itself is set, too, so that the alias is not read.
	shadowed bool
	// portForm is true if a dot and a suffix follow the plain key. The suffix is the number or name of a port, which named tells
	// apart.
	portForm bool
	suffix   string
	named    bool
	// ports are the ports that the suffix means, governs those that take their value from this setting, by index.
	ports, governs []int
	// undecided is true if another form of the key competes with this one for a port.
	undecided bool
}

// ambiguous governs a port for which two forms of a key compete.
var ambiguous = &Setting{}

// has reports whether the controller sees a value. An invalid one counts: the annotation was meant to be there.
func (s *Setting) has() bool { return !s.shadowed && !s.Value.Absent }

// newView parses the annotations, except for those that are known.
func newView(c *Catalog, p *Parsed, known *before) *View {
	v := &View{contents: c.contents(), catalog: c, class: p.set.class, Service: p.Service}
	for _, key := range p.keys {
		if s := v.parse(key, known, p.set.onParse); s != nil {
			v.settings = append(v.settings, s)
		}
	}
	if known != nil && known.suggestions != nil {
		v.suggested = map[string]suggestion{}
		for _, key := range v.unknown {
			if s, found := known.suggestions[key]; found {
				v.suggested[key] = s
			}
		}
	}
	v.owned = v.owns()
	if v.portForms && v.owned {
		v.assign()
	}
	return v
}

// parse returns the setting of a key that the catalog knows, or nil.
func (v *View) parse(key string, known *before, onParse func(key string)) *Setting {
	e, b, suffix, portForm, found := v.lookUp(key)
	if !found {
		if v.catalog.Own && hasPrefix(key, v.catalog.Prefixes) {
			v.unknown = append(v.unknown, key)
		}
		return nil
	}
	s := &Setting{entry: e.on(v), Key: key, Raw: v.Service.Annotations[key], name: b.expand(e.Name), bindings: b}
	if _, twice := v.Service.Annotations[s.name]; twice && s.name != key && !portForm {
		s.shadowed = true
	}
	if portForm {
		s.portForm, s.suffix = true, suffix
		s.ports, s.named = v.resolve(suffix)
		if !e.PortForm || len(s.ports) == 0 {
			v.doubt(e)
		}
	}
	if known != nil && known.settings[key] != nil && known.settings[key].entry == s.entry {
		s.Value, s.Err = known.settings[key].Value, known.settings[key].Err
		return s
	}
	if onParse != nil {
		onParse(key)
	}
	s.Value, s.Err = s.Parse(s.Raw)
	return s
}

// lookUp returns the entry that a key belongs to, and its suffix if it is a form for a port. A suffix is found behind keys without
// such a form, too, for validation to report.
func (v *View) lookUp(key string) (e *entry, b bindings, suffix string, portForm, found bool) {
	if e, b, found = v.find(key); found || !v.portForms {
		return e, b, "", false, found
	}
	if plain, suffix, cut := v.catalog.cutPort(key); cut {
		if e, found = v.byName[plain]; found {
			return e, nil, suffix, true, true
		}
	}
	return nil, nil, "", false, false
}

// cutPort cuts a key at the first dot behind its prefix.
func (c *Catalog) cutPort(key string) (plain, suffix string, cut bool) {
	prefix, rest := c.split(key)
	name, suffix, cut := strings.Cut(rest, ".")
	return prefix + name, suffix, cut
}

// resolve returns the ports that a suffix means: digits are a port number, anything else is a port's name.
func (v *View) resolve(suffix string) (ports []int, named bool) {
	if v.portsByNumber == nil {
		v.portsByNumber, v.portsByName = map[string][]int{}, map[string][]int{}
		for i, p := range v.Service.Spec.Ports {
			v.portsByNumber[spec.Number(p)] = append(v.portsByNumber[spec.Number(p)], i)
			if p.Name != "" {
				v.portsByName[p.Name] = append(v.portsByName[p.Name], i)
			}
		}
	}
	if suffix == "" || strings.Trim(suffix, "0123456789") != "" {
		return v.portsByName[suffix], true
	}
	return v.portsByNumber[suffix], false
}

// assign decides which setting governs which port: its own form, else the plain key.
func (v *View) assign() {
	v.governing = map[*entry][]*Setting{}
	byEntry := map[*entry][]*Setting{}
	for _, s := range v.settings {
		s.governs, s.undecided = nil, false
		if s.PortForm {
			byEntry[s.base] = append(byEntry[s.base], s)
		}
	}
	for e, settings := range byEntry {
		v.governing[e] = v.govern(settings)
	}
}

// govern returns which of a key's settings governs each port.
func (v *View) govern(settings []*Setting) []*Setting {
	governing := make([]*Setting, len(v.Service.Spec.Ports))
	var plain *Setting
	competing := false
	for _, s := range settings {
		if s.Key == s.name {
			plain = s
		}
		for _, i := range s.ports {
			if governing[i] == nil {
				governing[i] = s
				continue
			}
			// Neither governs, and nothing that depends on the value is reported, until the user has removed one.
			governing[i], competing = ambiguous, true
		}
	}
	for _, s := range settings {
		s.undecided = competing
	}
	for i, s := range governing {
		if s == nil {
			governing[i], s = plain, plain
		}
		if s != nil && s != ambiguous {
			s.governs = append(s.governs, i)
		}
	}
	return governing
}

// of returns the settings of a name that the controller reads.
func (v *View) of(name string, b bindings) []*Setting {
	name = b.expand(name)
	var found []*Setting
	for _, s := range v.settings {
		if s.has() && s.of(name) {
			found = append(found, s)
		}
	}
	return found
}

func (v *View) doubt(e *entry) {
	if v.doubtful == nil {
		v.doubtful = map[*entry]bool{}
	}
	v.doubtful[e] = true
}
