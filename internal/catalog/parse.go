package catalog

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/catalog/spec"
)

// Parsed is a Service whose annotations every catalog of a Set has parsed once. It is immutable, but remembers what was
// computed, so it must not be used concurrently. Validation, defaulting, policies and the desired load balancer share it.
type Parsed struct {
	// Service is the parsed Service. It must not be changed.
	Service *corev1.Service

	set  Set
	keys []string
	// views holds one View for each catalog of the set, in order.
	views []*View
}

// Parse parses the annotations of a Service of type LoadBalancer. It ignores those of other Services.
func (s Set) Parse(svc *corev1.Service) *Parsed {
	p := &Parsed{Service: svc, set: s}
	if !p.LoadBalancer() {
		return p
	}
	p.keys = slices.Sorted(maps.Keys(svc.Annotations))
	for _, c := range s.catalogs {
		p.views = append(p.views, newView(c, p, reusable{}))
	}
	return p
}

// LoadBalancer reports whether the Service exists and is of type LoadBalancer.
func (p *Parsed) LoadBalancer() bool {
	return p != nil && p.Service != nil && p.Service.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// With returns the Service with some annotations set, and parses only these. It returns p if there are none.
func (p *Parsed) With(annotations map[string]string) *Parsed {
	if len(annotations) == 0 || !p.LoadBalancer() {
		return p
	}
	svc := *p.Service
	svc.Annotations = make(map[string]string, len(svc.Annotations)+len(annotations))
	maps.Copy(svc.Annotations, p.Service.Annotations)
	maps.Copy(svc.Annotations, annotations)
	return p.replace(&svc, func(key string) bool {
		_, replaced := annotations[key]
		return !replaced
	})
}

// Without returns the Service without some annotations. It does not parse the others again.
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

// WithoutUnknown returns the Service without the unknown keys of Quaymaster's own catalog. They are errors in any case, and
// what they were meant to set is not known.
func (p *Parsed) WithoutUnknown() *Parsed {
	var unknown []string
	for _, v := range p.views {
		unknown = append(unknown, v.unknown...)
	}
	if len(unknown) == 0 {
		return p
	}
	return p.Without(unknown...)
}

// replace returns a changed Service. It reuses the parsed values of the annotations that are kept.
func (p *Parsed) replace(svc *corev1.Service, kept func(key string) bool) *Parsed {
	other := &Parsed{Service: svc, set: p.set, keys: slices.Sorted(maps.Keys(svc.Annotations))}
	for _, v := range p.views {
		known := reusable{settings: map[string]*Setting{}, suggestions: v.suggestions}
		for _, s := range v.settings {
			if kept(s.Key) {
				known.settings[s.Key] = s
			}
		}
		other.views = append(other.views, newView(v.catalog, other, known))
	}
	return other
}

// reusable is what a changed Service takes over from the original.
type reusable struct {
	settings    map[string]*Setting
	suggestions map[string]suggestion
}

// View returns the View of a catalog; nil if its controller does not own the Service.
func (p *Parsed) View(name string) *View {
	for _, v := range p.views {
		if v.catalog.Name == name && v.owned {
			return v
		}
	}
	return nil
}

// Own returns the View of Quaymaster's own catalog; nil if it is not in the set, or its controller does not own the
// Service.
func (p *Parsed) Own() *View {
	for _, v := range p.views {
		if v.catalog.Own && v.owned {
			return v
		}
	}
	return nil
}

// View is a Service as one controller reads it.
type View struct {
	*contents
	// Service must not be changed.
	Service *corev1.Service

	catalog *Catalog
	// class is the loadBalancerClass that Quaymaster's own controller serves.
	class string
	owned bool
	// settings holds the annotations that the catalog knows, sorted by key.
	settings []*Setting
	// governing holds the setting that governs each port, by entry with a form for ports; nil for a port that none
	// governs.
	governing map[*entry][]*Setting
	// unknown are the keys under the prefixes of Quaymaster's own catalog that it does not know.
	unknown []string
	// suggestions holds the keys that unknown keys are probably typos of; nil until a check depends on them.
	suggestions map[string]suggestion
	// uncertain holds the entries whose value is not known because a suffix is wrong.
	uncertain map[*entry]bool
	// portsByNumber and portsByName hold the indices of ports; they are computed when a suffix is parsed.
	portsByNumber, portsByName map[string][]int
}

// Setting is one annotation of a Service.
type Setting struct {
	*entry
	// Key and Raw are the key and the value as written in the Service.
	Key, Raw string
	// Value is the parsed value. Err is set if Raw is invalid; its text follows "must be …".
	Value annotation.Value
	Err   error

	// name is the name of the entry with the placeholders filled in, even if Key is an alias.
	name     string
	bindings bindings
	// shadowed is true for an alias that is not read, because the name itself is also set.
	shadowed bool
	// suffix is the dot and the number or name of a port that follow a plain key; named is true for a name.
	suffix string
	named  bool
	// ports are the indices of the ports that the suffix refers to, governs of those that get their value from the
	// setting.
	ports, governs []int
	// undecided is true if another form of the key sets the same port.
	undecided bool
}

// ambiguous governs a port that two forms of a key set.
var ambiguous = &Setting{}

// hasValue reports whether the controller reads a value. An invalid one counts, because the user meant to set one.
func (s *Setting) hasValue() bool { return !s.shadowed && !s.Value.Absent }

// newView parses the annotations, except for those that have been parsed before.
func newView(c *Catalog, p *Parsed, known reusable) *View {
	v := &View{contents: c.contents(), catalog: c, class: p.set.class, Service: p.Service}
	for _, key := range p.keys {
		if s := v.parse(key, known.settings[key], p.set.onParse); s != nil {
			v.settings = append(v.settings, s)
		}
	}
	if known.suggestions != nil {
		v.suggestions = map[string]suggestion{}
		for _, key := range v.unknown {
			if s, found := known.suggestions[key]; found {
				v.suggestions[key] = s
			}
		}
	}
	v.owned = v.owns()
	if v.portForms && v.owned {
		v.assign()
	}
	return v
}

// parse returns the setting of a key, or nil if the catalog does not know the key.
func (v *View) parse(key string, known *Setting, onParse func(key string)) *Setting {
	e, b, suffix, found := v.lookUp(key)
	if !found {
		if v.catalog.Own && hasPrefix(key, v.catalog.Prefixes) {
			v.unknown = append(v.unknown, key)
		}
		return nil
	}
	s := &Setting{
		entry: e.variantFor(v), Key: key, Raw: v.Service.Annotations[key], name: b.expand(e.Name), bindings: b,
		suffix: suffix,
	}
	if _, nameIsSet := v.Service.Annotations[s.name]; nameIsSet && s.name != key && suffix == "" {
		s.shadowed = true
	}
	if suffix != "" {
		s.ports, s.named = v.resolve(suffix[1:])
		if !e.PortForm || len(s.ports) == 0 {
			v.markUncertain(e)
		}
	}
	if known != nil && known.entry == s.entry {
		s.Value, s.Err = known.Value, known.Err
		return s
	}
	if onParse != nil {
		onParse(key)
	}
	s.Value, s.Err = s.Parse(s.Raw)
	return s
}

// lookUp returns the entry that a key belongs to, and the suffix of a form for a port, with its dot. It also finds the suffix of a
// key without such a form, so that validation can report it.
func (v *View) lookUp(key string) (e *entry, b bindings, suffix string, found bool) {
	if e, b, found = v.find(key); found || !v.portForms {
		return e, b, "", found
	}
	if plain, suffix, cut := v.catalog.cutPort(key); cut {
		if e, found = v.byName[plain]; found {
			return e, nil, "." + suffix, true
		}
	}
	return nil, nil, "", false
}

// cutPort splits a key at the first dot after its prefix.
func (c *Catalog) cutPort(key string) (plain, suffix string, cut bool) {
	prefix, rest := c.split(key)
	name, suffix, cut := strings.Cut(rest, ".")
	return prefix + name, suffix, cut
}

// resolve returns the ports that a suffix refers to: digits are a port number, anything else is a port name.
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

// assign decides which setting governs each port: the form for the port, else the plain key.
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

// govern returns the setting of a key that governs each port.
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
			// Neither governs until the user removes one. Until then, nothing that depends on the value is reported.
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

// settingsOf returns the settings of a name that the controller reads.
func (v *View) settingsOf(name string, b bindings) []*Setting {
	name = b.expand(name)
	var found []*Setting
	for _, s := range v.settings {
		if s.hasValue() && s.belongsTo(name) {
			found = append(found, s)
		}
	}
	return found
}

// markUncertain records that the value of an entry is not known, because the suffix of a key is wrong.
func (v *View) markUncertain(e *entry) {
	if v.uncertain == nil {
		v.uncertain = map[*entry]bool{}
	}
	v.uncertain[e] = true
}
