package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/rules"
)

// Set are the catalogs by which Services are judged. It never changes; the zero Set has none.
type Set struct {
	catalogs []*Catalog
	// unknown is the severity of unknown keys, by catalog; "" is that of all others.
	unknown map[string]rules.Severity
}

// NewSet selects catalogs by name. unknown is the severity of unknown keys by catalog, "" that of all others; none is Error.
func NewSet(names []string, unknown map[string]rules.Severity) (Set, error) {
	s := Set{unknown: unknown}
	for _, name := range names {
		c, found := Find(name)
		if !found {
			return Set{}, fmt.Errorf("there is no catalog %q%s; there are %s", name, nearest(name), strings.Join(Names(), ", "))
		}
		if !slices.Contains(s.catalogs, c) {
			s.catalogs = append(s.catalogs, c)
		}
	}
	return s, nil
}

func nearest(name string) string {
	if candidate, slips := annotation.Nearest(name, Names()); annotation.Near(name, slips) {
		return ", the nearest is " + candidate
	}
	return ""
}

// Only is the set without catalogs that are not among these names.
func (s Set) Only(names []string) Set {
	less := Set{unknown: s.unknown}
	for _, c := range s.catalogs {
		if slices.Contains(names, c.Name) {
			less.catalogs = append(less.catalogs, c)
		}
	}
	return less
}

// Detect names the catalogs that a Service seems to be written for: those that know one of its keys, or have its prefix to
// themselves, or own its loadBalancerClass by name.
func Detect(svc *corev1.Service) []string {
	var names []string
	for _, name := range Names() {
		c := heads()[name]
		concerned := svc.Spec.LoadBalancerClass != nil && !c.Head.Owns.AnyClass && c.Head.Owns.class(svc.Spec.LoadBalancerClass)
		for key := range svc.Annotations {
			concerned = concerned || hasPrefix(key, c.Prefixes) || hasPrefix(key, c.SharedPrefixes) && c.Knows(key)
		}
		if concerned {
			names = append(names, name)
		}
	}
	return names
}

// Review judges a Service by the catalogs whose controllers act on it. oldSvc is nil on creation. What an update did not introduce
// only warns, unless the Service becomes a load balancer by it.
func (s Set) Review(oldSvc, newSvc *corev1.Service) []rules.Finding {
	if len(s.catalogs) == 0 || newSvc == nil || newSvc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	findings := s.all(newSvc)
	if oldSvc == nil || oldSvc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return rules.Merge(findings)
	}
	for _, c := range s.catalogs {
		if c.Owns(oldSvc) && c.Owns(newSvc) {
			findings = append(findings, c.view(newSvc).changes(c.view(oldSvc))...)
		}
	}
	return rules.Ratchet(s.all(oldSvc), findings)
}

// all judges a Service as it is.
func (s Set) all(svc *corev1.Service) []rules.Finding {
	var findings []rules.Finding
	var owners []*Catalog
	for _, c := range s.catalogs {
		if c.Owns(svc) {
			owners = append(owners, c)
			findings = append(findings, c.view(svc).judge()...)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(svc.Annotations)) {
		findings = append(findings, s.key(svc, key, owners)...)
	}
	return findings
}

// key judges the name of an annotation: whether anybody reads it.
func (s Set) key(svc *corev1.Service, key string, owners []*Catalog) []rules.Finding {
	knows := func(c *Catalog) bool { return c.Knows(key) }
	if slices.ContainsFunc(owners, knows) {
		return nil
	}
	if at := slices.IndexFunc(s.catalogs, knows); at >= 0 {
		return []rules.Finding{s.catalogs[at].unowned(svc, key)}
	}
	for _, c := range slices.Concat(owners, s.catalogs) {
		if !c.Concerns(key) {
			continue
		}
		if f, found := c.unknown(key, svc.Annotations[key], s.severity(c)); found {
			return []rules.Finding{f}
		}
	}
	return nil
}

func (s Set) severity(c *Catalog) rules.Severity {
	for _, name := range []string{c.Name, ""} {
		if severity, set := s.unknown[name]; set {
			return severity
		}
	}
	return rules.Error
}
