package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
)

// Options select and configure catalogs.
type Options struct {
	// Catalogs are the names of the catalogs.
	Catalogs []string
	// Library is where they come from; nil for the catalogs of this build.
	Library *library.Library
	// Class is the loadBalancerClass that Quaymaster's own controller serves; with DefaultClass, it also serves Services
	// without one.
	Class        string
	DefaultClass bool
	// UnknownKeys sets by catalog how unknown keys are reported. "" sets it for all other catalogs; the default is
	// UnknownTypos. Unknown keys of Quaymaster's own controller are always errors.
	UnknownKeys map[string]UnknownKeys
	// Placeholders is true if values may have placeholders of templates. Such values are not validated.
	Placeholders bool
	// Unstored is true if no cluster has had the Services, so that users have written everything in them.
	Unstored bool
	// OnParse is called with each key whose value is parsed, if it is not nil.
	OnParse func(key string)
}

// UnknownKeys selects how to report keys under a controller's prefix that its catalog does not contain.
type UnknownKeys string

// The ways to report unknown keys.
const (
	// UnknownTypos denies probable misspellings of known keys, and warns of all others: a newer controller may read them.
	UnknownTypos UnknownKeys = "typos"
	// UnknownError denies all of them.
	UnknownError UnknownKeys = "error"
	// UnknownWarn warns of all of them.
	UnknownWarn UnknownKeys = "warn"
	// UnknownIgnore only counts them.
	UnknownIgnore UnknownKeys = "ignore"
)

// severity returns the severity of an unknown key.
func (u UnknownKeys) severity(typo bool) finding.Severity {
	switch {
	case u == UnknownIgnore:
		return finding.Audit
	case u == UnknownError, u != UnknownWarn && typo:
		return finding.Error
	}
	return finding.Warning
}

// Set holds the catalogs that validate Services. It is immutable. The zero Set has no catalogs.
type Set struct {
	o        Options
	catalogs []*library.Catalog
	// others are catalogs of which only the aliases are known.
	others []*library.Catalog
	// domains are the parts before the slash of every key that may belong to one of the catalogs; nil for any.
	domains map[string]bool
	// fields are those of About.
	fields map[string][]string
}

// NewSet selects catalogs. It fails if one does not exist.
func NewSet(o Options) (Set, error) {
	if o.Library == nil {
		o.Library = library.BuiltIn()
	}
	names := o.Library.Names()
	for _, name := range o.Catalogs {
		if !slices.Contains(names, name) {
			return Set{}, fmt.Errorf("unknown catalog %q: must be %s%s", name, strings.Join(names, ", "), o.Library.DidYouMean(name))
		}
	}
	return Set{o: o}.With(o.Catalogs), nil
}

// Library returns where the catalogs come from.
func (s Set) Library() *library.Library { return s.o.Library }

// Reads reports whether one of the controllers reads a key on the objects that the catalogs are about.
func (s Set) Reads(key string) bool {
	return slices.ContainsFunc(s.catalogs, func(c *library.Catalog) bool {
		return c.Concerns(key) && c.Knows(key) && !c.IsElsewhere(key)
	})
}

// ReadsOnAnyType reports whether one of the controllers reads a key on Services of any type.
func (s Set) ReadsOnAnyType(key string) bool {
	return slices.ContainsFunc(s.catalogs, func(c *library.Catalog) bool { return document.MatchesAny(c.AnyType, key) })
}

// With returns a set of other catalogs with the same options. It ignores unknown names.
func (s Set) With(names []string) Set {
	other := s
	other.catalogs = nil
	for _, name := range names {
		if c, found := s.o.Library.Find(name); found && !slices.Contains(other.catalogs, c) {
			other.catalogs = append(other.catalogs, c)
		}
	}
	other.domains = domains(other.catalogs)
	return other
}

// About returns the set for an object of another kind, whose fields conditions test. The values are by path, such as
// spec.tls[].secretName; of a path that is missing, nothing is known.
func (s Set) About(fields map[string][]string) Set {
	s.fields = fields
	return s
}

// Validate validates a Service by the catalogs whose controllers own it. Each error names at most one listener, so that
// errors of an update can be compared with those of the old Service.
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

// Changes reports the immutable values that an update changes.
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

// severity returns the severity of an unknown key that is closest to a known one.
func (s Set) severity(c *library.Catalog, nearest library.Suggestion) finding.Severity {
	if c.Own {
		return finding.Error
	}
	how, set := s.o.UnknownKeys[c.Name]
	if !set {
		how = s.o.UnknownKeys[""]
	}
	return how.severity(nearest.Typo)
}

// WrittenDefaults returns the built-in defaults that admission writes into a Service that lacks them: those that users
// should see and may want to change.
func (p *Parsed) WrittenDefaults() map[string]string {
	defaults := map[string]string{}
	for _, v := range p.views {
		if !v.owned || !v.catalog.Own {
			continue
		}
		for _, e := range v.Entries {
			if _, set := p.Service.Annotations[e.Name]; e.WriteDefault && !set {
				defaults[e.Name] = e.Default
			}
		}
	}
	return defaults
}

// Sets reports whether the Service has an annotation with the key.
func (p *Parsed) Sets(key string) bool {
	_, set := p.Service.Annotations[key]
	return set
}

// ReadByOwn reports whether a key may have an effect on a Service of Quaymaster's own controller.
func (p *Parsed) ReadByOwn(key string) bool {
	return slices.ContainsFunc(p.views, func(v *View) bool {
		return v.owned && v.catalog.Own && v.catalog.ReadsKey(key)
	})
}

// Own returns the set of only the catalogs of Quaymaster's own controller. class is the loadBalancerClass that it
// serves; with defaultClass, it also serves Services without one.
func Own(class string, defaultClass bool) Set {
	own := library.BuiltIn().Own()
	return Set{
		o: Options{Library: library.BuiltIn(), Class: class, DefaultClass: defaultClass}, catalogs: own, domains: domains(own),
	}
}

// domains returns the parts before the slash of every key that may belong to one of the catalogs.
func domains(catalogs []*library.Catalog) map[string]bool {
	all := map[string]bool{}
	for _, c := range catalogs {
		maps.Copy(all, c.Contents().Domains)
	}
	return all
}
