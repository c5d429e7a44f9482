package catalog

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
)

// maxSuggestions limits the search for typos: an object with more unknown keys than this does not contain mere typos.
const maxSuggestions = 20

// unknownLetter is the distance for each letter after a key that is no port.
const unknownLetter = 3

// suggested returns the keys that unknown keys are probably typos of.
func (v *View) suggested() map[string]library.Suggestion {
	if v.suggestions == nil && len(v.unknown) > 0 {
		v.suggestions = map[string]library.Suggestion{}
		for _, key := range v.unknown[:min(len(v.unknown), maxSuggestions)] {
			v.suggestions[key] = v.nearestForPort(key, v.catalog.Nearest(key))
		}
	}
	return v.suggestions
}

// isUncertain reports whether the value of an entry is not known, because a key is probably a typo of it or has a wrong
// suffix. What depends on such a value is not reported, so that one typo causes one finding.
func (v *View) isUncertain(e *library.Entry) bool {
	if e == nil || v.uncertain[e] {
		return e != nil
	}
	for _, s := range v.suggested() {
		if s.Entry == e {
			return true
		}
	}
	return false
}

// nearestForPort also tries forms for a port, including those with a dash instead of the dot before the port. It
// returns the closest key.
func (v *View) nearestForPort(key string, best library.Suggestion) library.Suggestion {
	prefix, rest := v.catalog.Split(key)
	name, port, cut := strings.Cut(rest, ".")
	var readings [][2]string
	if cut {
		readings = append(readings, [2]string{name, port})
	}
	if at := strings.LastIndex(name, "-"); at > 0 {
		readings = append(readings, [2]string{name[:at], name[at+1:]})
	}
	for i, reading := range readings {
		s := v.catalog.Nearest(prefix + reading[0])
		ports, _ := v.ports.Resolve(reading[1], nil)
		if s.Entry == nil || len(ports) == 0 || !s.Entry.PortForm {
			s.Distance += unknownLetter * len(reading[1])
		} else {
			s.Key += "." + reading[1]
		}
		if first := cut && i == 0; s.Entry != nil && (s.Distance < best.Distance || first && s.Distance == best.Distance) {
			best = s
		}
	}
	return best
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
	knows := func(v *View) bool { return v.hasSetting(key) || v.catalog.IsElsewhere(key) }
	if slices.ContainsFunc(p.views, func(v *View) bool { return v.owned && knows(v) }) {
		return finding.Finding{}, false
	}
	// Kubernetes accepts any case in the part before the slash, and controllers do not.
	if lower := document.LowerDomain(key); lower != key {
		if f, found := p.misspelledDomain(key, lower); found {
			return f, true
		}
	}
	for _, v := range p.views {
		// A key under a prefix of our own is no other controller's, even if that shares a shorter prefix.
		if v.catalog.Own && v.owned && document.HasPrefix(key, v.catalog.Prefixes) {
			return p.unknown(v, key, search)
		}
	}
	for _, v := range p.views {
		if knows(v) || v.catalog.Own && !v.owned && document.HasPrefix(key, v.catalog.Prefixes) {
			return v.notOwned(key), true
		}
	}
	for _, owned := range []bool{true, false} {
		for _, v := range p.views {
			if v.owned != owned || !v.catalog.Concerns(key) {
				continue
			}
			if f, found := p.unknown(v, key, search); found {
				return f, true
			}
		}
	}
	for _, v := range p.views {
		if s, found := v.catalog.Displaced(key); found && !v.catalog.Concerns(key) && v.owned {
			return p.unknownKey(v.catalog, key, s), true
		}
	}
	return finding.Finding{}, false
}

// misspelledDomain reports a key that a controller would read if its domain was in lower case.
func (p *Parsed) misspelledDomain(key, lower string) (finding.Finding, bool) {
	for _, v := range p.views {
		if c := v.catalog; v.owned && (document.HasPrefix(lower, c.Prefixes) || c.Knows(lower)) {
			f := p.unknownKey(c, key, library.Suggestion{Key: lower, Near: true, Typo: true})
			if !c.Knows(lower) {
				f.Remedy = "write the part before the slash in lower case"
			}
			return f, true
		}
	}
	return finding.Finding{}, false
}

// search bounds the search for the nearest keys of one Service, and remembers those of the last key.
type search struct {
	keys int
	key  string
	of   map[*library.Catalog]library.Suggestion
}

func (s *search) nearest(c *library.Catalog, key string) library.Suggestion {
	if s.key != key {
		s.keys++
		s.key, s.of = key, map[*library.Catalog]library.Suggestion{}
	}
	if s.keys > maxSuggestions {
		return library.Suggestion{}
	}
	if _, known := s.of[c]; !known {
		s.of[c] = c.Nearest(key)
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
	prefix, _ := c.Split(key)
	if !best.Near && slices.Contains(c.SharedPrefixes, prefix) {
		return finding.Finding{}, false
	}
	for _, other := range p.views {
		if other == v || c.Own || !other.catalog.Concerns(key) {
			continue
		}
		if s := search.nearest(other.catalog, key); s.Near && (!best.Near || s.Distance < best.Distance) {
			best = s
		}
	}
	return p.unknownKey(c, key, best), true
}

// unknownKey returns the finding about a key that a controller does not read, and the known one that is closest to it.
func (p *Parsed) unknownKey(c *library.Catalog, key string, nearest library.Suggestion) finding.Finding {
	f := finding.Finding{
		ID: c.ID(library.IDUnknownKey), Check: library.IDUnknownKey, Catalog: c.Name, Severity: p.set.severity(c, nearest),
		Type: field.ErrorTypeInvalid, Field: Path(key), Value: p.Service.Annotations[key], Message: "unknown annotation of " + c.Title,
		Remedy: "remove it, or look for the right one with quayctl explain",
	}
	if nearest.Displaced && f.Severity == finding.Error && !document.HasPrefix(key, c.Prefixes) {
		f.Severity = finding.Warning // others may own the domain
	}
	if nearest.Near {
		f.Message, f.Remedy = "unknown annotation", "did you mean \""+nearest.Key+"\"?"
	}
	if !c.Own {
		f.Message += " (" + c.Described() + "; a newer version may read it)"
	}
	return f
}

// notOwned returns a warning about a key that the controller would read if it acted on the Service.
func (v *View) notOwned(key string) finding.Finding {
	message := "has no effect: " + v.catalog.Title + " does not act on this Service"
	if class := v.Service.Spec.LoadBalancerClass; class != nil {
		message = "has no effect with spec.loadBalancerClass " + *class + ": " +
			v.catalog.Title + " does not act on the Service"
	}
	return finding.Finding{
		ID: v.catalog.ID(library.IDNotOwned), Catalog: v.catalog.Name, Severity: finding.Warning, Field: Path(key),
		Message: message, Remedy: "remove it",
	}
}
