package catalog

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/catalog/spec"
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
	p.keys = s.sortedKeys(svc.Annotations)
	p.views = make([]*View, 0, len(s.catalogs))
	for _, c := range s.catalogs {
		p.views = append(p.views, newView(c, p, reusable{}))
	}
	return p
}

// sortedKeys returns the keys that may belong to a catalog of the set.
func (s Set) sortedKeys(annotations map[string]string) []string {
	keys := make([]string, 0, min(len(annotations), 64))
	for key := range annotations {
		if s.concerns(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// concerns reports whether a key may belong to a catalog of the set.
func (s Set) concerns(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return s.domains == nil || s.domains[strings.ToLower(domain)] || s.displaced(key)
}

// displaced reports whether a key of another domain is probably meant to be one of a catalog.
func (s Set) displaced(key string) bool {
	return slices.ContainsFunc(s.catalogs, func(c *library.Catalog) bool {
		_, found := c.Displaced(key)
		return found
	})
}

// Concerns reports whether a key may belong to a catalog of the set, so that its value is validated.
func (p *Parsed) Concerns(key string) bool { return p.set.concerns(key) }

// Size returns how much there is to validate: the number of ports, and of annotations that may belong to a catalog.
func (p *Parsed) Size() int {
	if !p.LoadBalancer() {
		return 0
	}
	return len(p.keys) + len(p.Service.Spec.Ports)
}

// Annotations returns the number of annotations that may belong to a catalog of the set.
func (s Set) Annotations(svc *corev1.Service) int {
	n := 0
	for key := range svc.Annotations {
		if s.concerns(key) {
			n++
		}
	}
	return n
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
	other := &Parsed{Service: svc, set: p.set, keys: p.set.sortedKeys(svc.Annotations)}
	other.views = make([]*View, 0, len(p.views))
	for _, v := range p.views {
		other.views = append(other.views, newView(v.catalog, other, reusable{v, kept}))
	}
	return other
}

// reusable is what a changed Service takes over from the original: the view of it, and whether an annotation is the
// same. The zero value is for a Service that is not a changed one.
type reusable struct {
	*View
	kept func(key string) bool
}

// setting returns the parsed annotation with the key; nil if it must be parsed.
func (r reusable) setting(key string) *Setting {
	if r.View == nil || !r.kept(key) {
		return nil
	}
	s, _ := r.View.setting(key)
	return s
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
	*library.Contents
	// Service must not be changed.
	Service *corev1.Service

	catalog *library.Catalog
	set     Set
	owned   bool
	// settings holds the annotations that the catalog knows, sorted by key.
	settings []*Setting
	// governing holds the setting that governs each port, by the form of an entry with forms for ports; nil for a port
	// that none governs.
	governing [][]*Setting
	// subject is the memory of at.
	subject subject
	// unknown are the keys under the prefixes of Quaymaster's own catalog that it does not know.
	unknown []string
	// suggestions holds the keys that unknown keys are probably typos of; nil until a check depends on them.
	suggestions map[string]library.Suggestion
	// uncertain holds the entries whose value is not known because a suffix is wrong.
	uncertain map[*library.Entry]bool
	ports     spec.Ports
}

// Setting is one annotation of a Service.
type Setting struct {
	*library.Entry
	// Key and Raw are the key and the value as written in the Service.
	Key, Raw string
	// Value is the parsed value. Err is set if Raw is invalid; its text follows "must be …".
	Value annotation.Value
	Err   error

	// name is the name of the entry with the placeholders filled in, even if Key is an alias.
	name     string
	bindings document.Bindings
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
	// list, onPorts and governed are the memory of a Value with one element, and of few ports and governs.
	list              [1]string
	onPorts, governed [2]int
}

// ambiguous governs a port that two forms of a key set.
var ambiguous = &Setting{}

// hasValue reports whether the controller reads a value. An invalid one counts, because the user meant to set one.
func (s *Setting) hasValue() bool { return !s.shadowed && !s.Value.Absent }

// newView parses the annotations, except for those that have been parsed before.
func newView(c *library.Catalog, p *Parsed, known reusable) *View {
	v := &View{Contents: c.Contents(), catalog: c, set: p.set, Service: p.Service, ports: spec.PortsOf(p.Service)}
	v.settings = make([]*Setting, 0, len(p.keys))
	m := &memory{}
	for i, key := range p.keys {
		e, b, suffix, found := v.lookUp(key)
		if !found {
			if c.Own && document.HasPrefix(key, c.Prefixes) {
				v.unknown = append(v.unknown, key)
			}
			continue
		}
		s := m.next(len(p.keys) - i)
		v.init(s, key, e, b, suffix)
		if before := known.setting(key); before != nil && before.Entry == s.Entry {
			s.Value, s.Err = before.Value, before.Err
		} else if p.set.o.Placeholders && hasPlaceholder(s.Raw) {
			s.Err = errPlaceholder
		} else {
			if p.set.o.OnParse != nil {
				p.set.o.OnParse(key)
			}
			s.Value, s.Err = s.ParseWith(s.Raw, s.list[:0])
		}
		v.settings = append(v.settings, s)
	}
	if known.View != nil && known.suggestions != nil {
		v.suggestions = map[string]library.Suggestion{}
		for _, key := range v.unknown {
			if s, found := known.suggestions[key]; found {
				v.suggestions[key] = s
			}
		}
	}
	v.owned = v.owns()
	if v.PortForms && v.owned {
		v.assign()
	}
	return v
}

// setting returns the setting with the key, if the catalog knows the key.
func (v *View) setting(key string) (*Setting, bool) {
	at, found := slices.BinarySearchFunc(v.settings, key, func(s *Setting, key string) int {
		return strings.Compare(s.Key, key)
	})
	if !found {
		return nil, false
	}
	return v.settings[at], true
}

// memory provides Settings for the annotations of a Service, a block at a time.
type memory struct{ settings []Setting }

// next returns an empty Setting; at most that many are still needed.
func (m *memory) next(atMost int) *Setting {
	const block = 16
	if len(m.settings) == 0 {
		m.settings = make([]Setting, min(atMost, block))
	}
	s := &m.settings[0]
	m.settings = m.settings[1:]
	return s
}

// init fills in what a Setting says apart from its value.
func (v *View) init(s *Setting, key string, e *library.Entry, b document.Bindings, suffix string) {
	*s = Setting{
		Entry: v.variantOf(e), Key: key, Raw: v.Service.Annotations[key], name: b.Expand(e.Name), bindings: b,
		suffix: suffix,
	}
	if s.name != key && suffix == "" {
		_, s.shadowed = v.Service.Annotations[s.name]
	}
	if suffix != "" {
		s.ports, s.named = v.ports.Resolve(suffix[1:], s.onPorts[:0])
		if !e.PortForm || len(s.ports) == 0 {
			v.markUncertain(e)
		}
	}
}

// variantOf returns the variant of an entry for the Service, or the entry itself.
func (v *View) variantOf(e *library.Entry) *library.Entry {
	for i, other := range e.Alternatives {
		if v.all(e.Variants[i].If, service) {
			return other
		}
	}
	return e
}

// lookUp returns the entry that a key belongs to, and the suffix of a form for a port, with its dot. It also finds the suffix of a
// key without such a form, so that validation can report it.
func (v *View) lookUp(key string) (e *library.Entry, b document.Bindings, suffix string, found bool) {
	if e, b, found = v.Find(key); found || !v.PortForms {
		return e, b, "", found
	}
	if plain, suffix, cut := v.catalog.CutPort(key); cut {
		if e, found = v.ByName[plain]; found {
			return e, nil, suffix, true
		}
	}
	return nil, nil, "", false
}

// assign decides which setting governs each port: the form for the port, else the plain key.
func (v *View) assign() {
	v.governing = make([][]*Setting, v.Forms)
	// form is what is known about an entry with forms for ports.
	type form struct {
		plain     *Setting
		competing bool
	}
	forms := make([]form, v.Forms)
	ports, memory := len(v.Service.Spec.Ports), []*Setting(nil)
	for _, s := range v.settings {
		if !s.PortForm {
			continue
		}
		governing := v.governing[s.Base.Form]
		if governing == nil {
			if len(memory) < ports {
				memory = make([]*Setting, min(len(v.settings), v.Forms)*ports)
			}
			governing, memory = memory[:ports:ports], memory[ports:]
			v.governing[s.Base.Form] = governing
		}
		if s.Key == s.name {
			forms[s.Base.Form].plain = s
		}
		for _, i := range s.ports {
			if governing[i] == nil {
				governing[i] = s
				continue
			}
			// Neither governs until the user removes one. Until then, nothing that depends on the value is reported.
			governing[i], forms[s.Base.Form].competing = ambiguous, true
		}
	}
	for _, s := range v.settings {
		if s.PortForm {
			s.undecided = forms[s.Base.Form].competing
		}
	}
	for i, governing := range v.governing {
		v.govern(governing, forms[i].plain)
	}
}

// govern lets a plain key govern the ports that nothing else governs, and tells each setting which ports it governs.
func (v *View) govern(governing []*Setting, plain *Setting) {
	for i, s := range governing {
		switch {
		case s == nil && plain != nil:
			governing[i], s = plain, plain
		case s == nil || s == ambiguous:
			continue
		}
		if s.governs == nil {
			s.governs = s.governed[:0]
		}
		s.governs = append(s.governs, i)
	}
}

// settingsOf returns the settings of a name that the controller reads.
func (v *View) settingsOf(name string, b document.Bindings) []*Setting {
	name = b.Expand(name)
	var found []*Setting
	for _, s := range v.settings {
		if s.hasValue() && s.belongsTo(name) {
			found = append(found, s)
		}
	}
	return found
}

// markUncertain records that the value of an entry is not known, because the suffix of a key is wrong.
func (v *View) markUncertain(e *library.Entry) {
	if v.uncertain == nil {
		v.uncertain = map[*library.Entry]bool{}
	}
	v.uncertain[e] = true
}
