package catalog

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/finding"
)

// maxSuggestions limits the search for typos: an object with more unknown keys than this does not contain mere typos.
const maxSuggestions = 20

// suggestion is the known key closest to an unknown one.
type suggestion struct {
	key string
	// near is true if the unknown key is probably a typo of it.
	near bool

	entry *entry
	typos int
}

// suggested returns the keys that unknown keys are probably typos of.
func (v *View) suggested() map[string]suggestion {
	if v.suggestions == nil && len(v.unknown) > 0 {
		v.suggestions = map[string]suggestion{}
		for _, key := range v.unknown[:min(len(v.unknown), maxSuggestions)] {
			v.suggestions[key] = v.nearestForPort(key, v.catalog.nearest(key))
		}
	}
	return v.suggestions
}

// isUncertain reports whether the value of an entry is not known, because a key is probably a typo of it or has a wrong
// suffix. What depends on such a value is not reported, so that one typo causes one finding.
func (v *View) isUncertain(e *entry) bool {
	if e == nil || v.uncertain[e] {
		return e != nil
	}
	for _, s := range v.suggested() {
		if s.entry == e {
			return true
		}
	}
	return false
}

// nearestForPort also tries forms for a port, including those with a dash instead of the dot before the port. It
// returns the closest key.
func (v *View) nearestForPort(key string, best suggestion) suggestion {
	prefix, rest := v.catalog.split(key)
	name, port, cut := strings.Cut(rest, ".")
	var readings [][2]string
	if cut {
		readings = append(readings, [2]string{name, port})
	}
	if at := strings.LastIndex(name, "-"); at > 0 {
		readings = append(readings, [2]string{name[:at], name[at+1:]})
	}
	for i, reading := range readings {
		s := v.catalog.nearest(prefix + reading[0])
		ports, _ := v.resolve(reading[1], nil)
		if s.entry == nil || len(ports) == 0 || !s.entry.PortForm {
			s.typos += len(reading[1])
		} else {
			s.key += "." + reading[1]
		}
		if first := cut && i == 0; s.entry != nil && (s.typos < best.typos || first && s.typos == best.typos) {
			best = s
		}
	}
	return best
}

// names are the known keys under one prefix, without it.
type names struct {
	tails  []string
	owners map[string]*entry
}

func newNames(h Head, entries []*entry) map[string]*names {
	all := map[string]*names{}
	add := func(prefix, tail string, e *entry) {
		if all[prefix] == nil {
			all[prefix] = &names{owners: map[string]*entry{}}
		}
		n := all[prefix]
		n.tails = append(n.tails, tail)
		n.owners[tail] = e
	}
	for _, e := range entries {
		for _, known := range e.Names() {
			prefix, tail := h.split(known)
			add(prefix, tail, e)
		}
		// A key on other clouds may be written with any prefix of this one.
		for _, prefix := range slices.Concat([]string{""}, h.Prefixes, h.SharedPrefixes) {
			for _, word := range e.Also {
				add(prefix, word, e)
			}
		}
	}
	return all
}

// nearest returns the known key under the same prefix that is closest to an unknown one.
func (c *Catalog) nearest(key string) suggestion {
	prefix, rest := c.split(key)
	known := c.contents().names()[prefix]
	if known == nil {
		return suggestion{}
	}
	text := rest
	if c.contents().portForms {
		text = strings.ReplaceAll(rest, ".", "-")
	}
	tail, typos := annotation.Nearest(text, known.tails)
	e := known.owners[tail]
	s := suggestion{key: prefix + tail, near: annotation.Near(rest, typos), entry: e, typos: typos}
	if e != nil && slices.Contains(e.Also, tail) {
		s.key = e.Name
	}
	return s
}

// Suggest returns the known key that an unknown one is probably a typo of.
func (c *Catalog) Suggest(key string) (suggestion string, ok bool) {
	s := c.nearest(key)
	return s.key, s.near
}

// unread reports the keys that no controller reads.
func (p *Parsed) unread() []finding.Finding {
	var findings []finding.Finding
	search := &search{}
	for _, key := range p.keys {
		if f, found := p.unreadKey(key, search); found {
			findings = append(findings, f)
		}
	}
	return findings
}

func (p *Parsed) unreadKey(key string, search *search) (finding.Finding, bool) {
	knows := func(v *View) bool { return v.hasSetting(key) || v.catalog.isElsewhere(key) }
	if slices.ContainsFunc(p.views, func(v *View) bool { return v.owned && knows(v) }) {
		return finding.Finding{}, false
	}
	for _, v := range p.views {
		// A key under a prefix of our own is no other controller's, even if that shares a shorter prefix.
		if v.catalog.Own && v.owned && hasPrefix(key, v.catalog.Prefixes) {
			return p.unknown(v, key, search)
		}
	}
	for _, v := range p.views {
		if knows(v) || v.catalog.Own && !v.owned && hasPrefix(key, v.catalog.Prefixes) {
			return v.notOwned(key), true
		}
	}
	for _, owned := range []bool{true, false} {
		for _, v := range p.views {
			if v.owned != owned || !v.catalog.concerns(key) {
				continue
			}
			if f, found := p.unknown(v, key, search); found {
				return f, true
			}
		}
	}
	return finding.Finding{}, false
}

// search bounds the search for the nearest keys of one Service, and remembers those of the last key.
type search struct {
	keys int
	key  string
	of   map[*Catalog]suggestion
}

func (s *search) nearest(c *Catalog, key string) suggestion {
	if s.key != key {
		s.keys++
		s.key, s.of = key, map[*Catalog]suggestion{}
	}
	if s.keys > maxSuggestions {
		return suggestion{}
	}
	if _, known := s.of[c]; !known {
		s.of[c] = c.nearest(key)
	}
	return s.of[c]
}

// hasSetting reports whether a key is among the settings.
func (v *View) hasSetting(key string) bool {
	_, found := v.setting(key)
	return found
}

// unknown reports a key that has a prefix of the catalog and that no catalog of the set knows. A key under a shared
// prefix is reported only if it is close to a known key. The suggestion is the closest key of all catalogs with the
// prefix.
func (p *Parsed) unknown(v *View, key string, search *search) (finding.Finding, bool) {
	c := v.catalog
	best, bounded := v.suggested()[key]
	if !bounded && !c.Own {
		best = search.nearest(c, key)
	}
	// A prefix of the controller's own may begin with one that it shares.
	prefix, _ := c.split(key)
	if !best.near && slices.Contains(c.SharedPrefixes, prefix) {
		return finding.Finding{}, false
	}
	for _, other := range p.views {
		if other == v || c.Own || !other.catalog.concerns(key) {
			continue
		}
		if s := search.nearest(other.catalog, key); s.near && (!best.near || s.typos < best.typos) {
			best = s
		}
	}
	f := finding.Finding{
		ID: c.ID(idUnknownKey), Check: idUnknownKey, Catalog: c.Name, Severity: p.set.severity(c),
		Type: field.ErrorTypeInvalid, Field: Path(key), Value: p.Service.Annotations[key], Message: "unknown annotation of " + c.Title,
		Remedy: "remove it, or look for the right one with quayctl explain",
	}
	if best.near {
		f.Message, f.Remedy = "unknown annotation", "did you mean \""+best.key+"\"?"
	}
	return f, true
}

// notOwned returns a warning about a key that the controller would read if it acted on the Service.
func (v *View) notOwned(key string) finding.Finding {
	message := "has no effect: " + v.catalog.Title + " does not act on this Service"
	if class := v.Service.Spec.LoadBalancerClass; class != nil {
		message = "has no effect with spec.loadBalancerClass " + *class + ": " +
			v.catalog.Title + " does not act on the Service"
	}
	return finding.Finding{
		ID: v.catalog.ID(idNotOwned), Catalog: v.catalog.Name, Severity: finding.Warning, Field: Path(key),
		Message: message, Remedy: "remove it",
	}
}
