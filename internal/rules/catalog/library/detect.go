package library

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/catalog/document"
)

// IngressClass is the annotation that sets the class of Ingresses.
const IngressClass = "kubernetes.io/ingress.class"

// Detect returns the catalogs that a Service is probably written for: those that claim one of its keys or its
// loadBalancerClass.
func (l *Library) Detect(svc *corev1.Service) []string {
	var names []string
	for _, name := range l.names {
		c := l.byName[name]
		if len(c.Kinds) > 0 {
			continue
		}
		class := svc.Spec.LoadBalancerClass
		claimed := class != nil && !c.Head.Owns.AnyClass && c.Head.Owns.Class(class)
		for key := range svc.Annotations {
			claimed = claimed || l.claims(c, key, "")
		}
		if claimed {
			names = append(names, name)
		}
	}
	return names
}

// Claims reports whether one of the annotations indicates that an object was written for the controller of a catalog.
func (l *Library) Claims(name string, annotations map[string]string) bool {
	c, found := l.byName[name]
	return found && slices.ContainsFunc(slices.Collect(maps.Keys(annotations)), func(key string) bool {
		return l.claims(c, key, annotations[key])
	})
}

// Refuses reports whether every catalog that knows a key rejects the value, and describes the values that one of them
// accepts. refused is false if no catalog knows the key.
func (l *Library) Refuses(key, value string) (expected string, refused bool) {
	for _, name := range l.names {
		c := l.byName[name]
		if !c.Concerns(key) {
			continue
		}
		e, _, found := c.contents().Find(key)
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

// claims reports whether a key indicates that a Service was written for the controller: a key under one of its own
// prefixes, a known key, or a probable typo of a known key or of its domain. Of an Ingress, so does its class.
func (l *Library) claims(c *Catalog, key, value string) bool {
	key = document.LowerDomain(key)
	switch {
	case document.HasPrefix(key, c.Prefixes):
		return true
	case key == corev1.AnnotationLoadBalancerSourceRangesKey:
		return false // Kubernetes defines it, and many controllers read it
	case key == IngressClass:
		return slices.Contains(c.Owns.Classes, value)
	case !document.HasPrefix(key, c.SharedPrefixes):
		s, found := c.Displaced(key)
		return found && s.Key != corev1.AnnotationLoadBalancerSourceRangesKey && !l.claimedElsewhere(key)
	case c.Knows(key):
		return true
	}
	s := c.Nearest(key)
	return s.Near && s.Key != corev1.AnnotationLoadBalancerSourceRangesKey && !l.claimedElsewhere(key)
}

// claimedElsewhere reports whether any controller knows a key or is the only one that uses its prefix.
func (l *Library) claimedElsewhere(key string) bool {
	for _, c := range l.byName {
		if document.HasPrefix(key, c.Prefixes) || document.HasPrefix(key, c.SharedPrefixes) && c.Knows(key) {
			return true
		}
	}
	return false
}
