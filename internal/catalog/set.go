package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/finding"
)

// Set are the catalogs by which Services are judged. It never changes; the zero Set has none.
type Set struct {
	catalogs []*Catalog
	// unknown is the severity of unknown keys, by catalog; "" is that of all others.
	unknown map[string]finding.Severity
}

// NewSet selects catalogs by name. unknown is the severity of unknown keys by catalog, "" that of all others; none is Error.
func NewSet(names []string, unknown map[string]finding.Severity) (Set, error) {
	for _, name := range names {
		if _, found := Find(name); !found {
			return Set{}, fmt.Errorf("there is no catalog %q; there are %s", name, strings.Join(Names(), ", "))
		}
	}
	return Set{unknown: unknown}.With(names), nil
}

// With is a set of other catalogs that says the same of unknown keys. Names of none are left out.
func (s Set) With(names []string) Set {
	other := Set{unknown: s.unknown}
	for _, name := range names {
		if c, found := Find(name); found && !slices.Contains(other.catalogs, c) {
			other.catalogs = append(other.catalogs, c)
		}
	}
	return other
}

// Detect names the catalogs that a Service seems to be written for: those that claim one of its keys, or own its loadBalancerClass
// by name.
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

// Refuses tells that no catalog that knows a key takes the value, and completes "must be …".
func Refuses(key, value string) (words string, refused bool) {
	for _, name := range Names() {
		c := heads()[name]
		if !c.Concerns(key) {
			continue
		}
		e, _, found := c.read().find(key)
		if !found {
			continue
		}
		if _, err := e.Parse(value); err == nil {
			return "", false
		}
		words, refused = e.Words(), true
	}
	return words, refused
}

// Review judges a Service by the catalogs whose controllers act on it. oldSvc is nil on creation. What an update did not introduce
// only warns, unless the Service becomes a load balancer by it.
func (s Set) Review(oldSvc, newSvc *corev1.Service) []finding.Finding {
	if len(s.catalogs) == 0 || newSvc == nil || newSvc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	is := s.owned(newSvc)
	findings := s.all(newSvc, is)
	if oldSvc == nil || oldSvc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return finding.Merge(findings)
	}
	was := s.owned(oldSvc)
	for _, r := range is {
		if at := slices.IndexFunc(was, func(old *reading) bool { return old.catalog == r.catalog }); at >= 0 {
			findings = append(findings, r.changes(was[at])...)
		}
	}
	return finding.Ratchet(s.all(oldSvc, was), findings)
}

// owned is a load balancer as those controllers see it that act on it.
func (s Set) owned(svc *corev1.Service) []*reading {
	var owned []*reading
	for _, c := range s.catalogs {
		if r := c.view(svc); r.owned() {
			owned = append(owned, r)
		}
	}
	return owned
}

// all judges a Service as it is.
func (s Set) all(svc *corev1.Service, owned []*reading) []finding.Finding {
	var findings []finding.Finding
	var owners []*Catalog
	for _, r := range owned {
		owners = append(owners, r.catalog)
		findings = append(findings, r.judge()...)
	}
	for _, key := range slices.Sorted(maps.Keys(svc.Annotations)) {
		findings = append(findings, s.key(svc, key, owners)...)
	}
	return findings
}

// key judges the name of an annotation: whether anybody reads it.
func (s Set) key(svc *corev1.Service, key string, owners []*Catalog) []finding.Finding {
	knows := func(c *Catalog) bool { return c.Knows(key) }
	if slices.ContainsFunc(owners, knows) {
		return nil
	}
	if at := slices.IndexFunc(s.catalogs, knows); at >= 0 {
		return []finding.Finding{s.catalogs[at].unowned(svc, key)}
	}
	for _, c := range slices.Concat(owners, s.catalogs) {
		if !c.Concerns(key) {
			continue
		}
		if f, found := c.unknown(key, svc.Annotations[key], s.severity(c)); found {
			return []finding.Finding{f}
		}
	}
	return nil
}

func (s Set) severity(c *Catalog) finding.Severity {
	for _, name := range []string{c.Name, ""} {
		if severity, set := s.unknown[name]; set {
			return severity
		}
	}
	return finding.Error
}
