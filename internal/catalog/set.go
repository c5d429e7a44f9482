package catalog

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/finding"
)

// Options select catalogs and say how they are applied.
type Options struct {
	// Catalogs are names of catalogs.
	Catalogs []string
	// Class is the loadBalancerClass of Services that Quaymaster's own controller serves, besides those without one.
	Class string
	// UnknownKeys is the severity of unknown keys by catalog; "" is the severity for all others, Error if absent. Unknown keys of
	// Quaymaster's own controller are always errors.
	UnknownKeys map[string]finding.Severity
	// OnParse is called with each key whose value is parsed; nil for nobody.
	OnParse func(key string)
}

// Set holds the catalogs by which Services are validated. It never changes; the zero Set has none.
type Set struct {
	catalogs []*Catalog
	class    string
	unknown  map[string]finding.Severity
	onParse  func(key string)
}

// NewSet selects catalogs. An error names the one that does not exist.
func NewSet(o Options) (Set, error) {
	for _, name := range o.Catalogs {
		if _, found := Find(name); !found {
			return Set{}, fmt.Errorf("unknown catalog %q: must be %s%s", name, strings.Join(Names(), ", "), didYouMean(name, Names()))
		}
	}
	return Set{class: o.Class, unknown: o.UnknownKeys, onParse: o.OnParse}.With(o.Catalogs), nil
}

// didYouMean goes on after a sentence about an unknown name.
func didYouMean(name string, known []string) string {
	if nearest, near := annotation.Suggest(name, known); near {
		return fmt.Sprintf("; did you mean %q?", nearest)
	}
	return ""
}

// With returns a set of other catalogs with the same options. Names of no catalog are left out.
func (s Set) With(names []string) Set {
	other := s
	other.catalogs = nil
	for _, name := range names {
		if c, found := Find(name); found && !slices.Contains(other.catalogs, c) {
			other.catalogs = append(other.catalogs, c)
		}
	}
	return other
}

// Class returns the loadBalancerClass that Quaymaster's own controller serves.
func (s Set) Class() string { return s.class }

// Detect returns the catalogs that a Service seems to be written for: those that claim one of its keys, or own its
// loadBalancerClass by name.
func Detect(svc *corev1.Service) []string {
	var names []string
	for _, name := range Names() {
		c := heads()[name]
		concerned := svc.Spec.LoadBalancerClass != nil && !c.Head.Owns.AnyClass && c.Head.Owns.class(svc.Spec.LoadBalancerClass)
		for key := range svc.Annotations {
			concerned = concerned || c.claims(key)
		}
		if concerned {
			names = append(names, name)
		}
	}
	return names
}

// Refuses reports whether no catalog that knows a key accepts the value, and what they expect.
func Refuses(key, value string) (expected string, refused bool) {
	for _, name := range Names() {
		c := heads()[name]
		if !c.Concerns(key) {
			continue
		}
		e, _, found := c.contents().find(key)
		if !found {
			continue
		}
		if _, err := e.Parse(value); err == nil {
			return "", false
		}
		expected, refused = e.Expected(), true
	}
	return expected, refused
}

// ownCatalogs are those of Quaymaster's own controller.
var ownCatalogs = sync.OnceValue(func() []*Catalog {
	var own []*Catalog
	for _, name := range Names() {
		if c := heads()[name]; c.Own {
			own = append(own, c)
		}
	}
	return own
})

// OwnCatalog returns the catalog of Quaymaster's own controller that a key belongs to, by its prefix.
func OwnCatalog(key string) (*Catalog, bool) {
	for _, c := range ownCatalogs() {
		if hasPrefix(key, c.Prefixes) {
			return c, true
		}
	}
	return nil, false
}

// Validate validates a Service by the catalogs whose controllers own it. Errors name at most one listener each, for the ratchet.
func (p *Parsed) Validate() []finding.Finding {
	if !p.LoadBalancer() {
		return nil
	}
	var findings []finding.Finding
	for _, v := range p.views {
		if v.owned {
			findings = append(findings, v.validate()...)
		}
	}
	return append(findings, p.unread()...)
}

// Changes validates what an update changed: values that must not change.
func (p *Parsed) Changes(old *Parsed) []finding.Finding {
	if !p.LoadBalancer() || !old.LoadBalancer() {
		return nil
	}
	var findings []finding.Finding
	for _, v := range p.views {
		if was := old.View(v.catalog.Name); v.owned && was != nil {
			findings = append(findings, v.changes(was)...)
		}
	}
	return findings
}

func (s Set) severity(c *Catalog) finding.Severity {
	if c.Own {
		return finding.Error
	}
	for _, name := range []string{c.Name, ""} {
		if severity, set := s.unknown[name]; set {
			return severity
		}
	}
	return finding.Error
}

// WrittenDefaults returns the built-in defaults that admission writes into a Service where it lacks them: those that its owner should
// see and may want to change.
func (p *Parsed) WrittenDefaults() map[string]string {
	defaults := map[string]string{}
	for _, v := range p.views {
		if !v.owned || !v.catalog.Own {
			continue
		}
		for _, e := range v.entries {
			if _, set := p.Service.Annotations[e.Name]; e.WriteDefault && !set {
				defaults[e.Name] = e.Default
			}
		}
	}
	return defaults
}

// ReadByOwn reports whether a key may have an effect on a Service of Quaymaster's own controller.
func (p *Parsed) ReadByOwn(key string) bool {
	return slices.ContainsFunc(p.views, func(v *View) bool { return v.owned && v.catalog.Own && v.catalog.ReadsKey(key) })
}

// Own returns the catalogs of Quaymaster's own controller alone. class is the loadBalancerClass that it serves besides none.
func Own(class string) Set { return Set{catalogs: ownCatalogs(), class: class} }
