// Package catalog describes which annotations the load balancer controllers of clouds read, in which dialect, and what
// each controller does with a value that it cannot parse. It parses and validates Services accordingly.
//
// The descriptions are data in the types of Document: one YAML file per controller in catalogs/. What an entry cannot
// express is a function of package check that the file names. The package uses no client, no clock and no network.
package catalog

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Catalog describes the annotations of one controller. It is immutable.
type Catalog struct {
	Head
	contents func() *contents
}

// Document returns the content of the catalog's file, completed with defaults. It must not be changed.
func (c *Catalog) Document() Document { return Document{Head: c.Head, Body: c.contents().Body} }

// Plain returns the annotation with this name. Names with placeholders are not found.
func (c *Catalog) Plain(key string) (*Annotation, bool) {
	if e, found := c.contents().byName[key]; found {
		return e.Annotation, true
	}
	return nil, false
}

// HasPortForm reports whether a key is the form for a port of a known key, and returns that key.
func (c *Catalog) HasPortForm(key string) (plain string, ok bool) {
	plain, _, cut := c.cutPort(key)
	_, known := c.contents().byName[plain]
	return plain, cut && known
}

// owns reports whether the controller acts on the Service, as far as the Service shows it.
func (v *View) owns() bool {
	o := v.catalog.Owns
	if len(o.Also) > 0 && v.any(o.Also, service) {
		return true
	}
	if !v.set.serves(v.catalog, v.Service.Spec.LoadBalancerClass) {
		return false
	}
	fails := func(c Condition) bool { return v.none([]Condition{c}, service) }
	return !slices.ContainsFunc(o.When, fails) && (len(o.Any) == 0 || !v.none(o.Any, service))
}

// Owned reports whether Quaymaster's own controller acts on a Service. Its class decides that, so that no annotation is
// parsed.
func (s Set) Owned(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && slices.ContainsFunc(s.catalogs, func(c *Catalog) bool {
		return c.Own && s.serves(c, svc.Spec.LoadBalancerClass)
	})
}

// serves reports whether the controller of a catalog acts on Services of a class, as far as the class decides.
func (s Set) serves(c *Catalog, class *string) bool {
	if c.Own && class == nil {
		return !s.classOnly && c.Owns.class(nil)
	}
	return c.Owns.class(class) || c.Own && *class == s.class
}

func (o Ownership) class(class *string) bool {
	if o.AnyClass {
		return true
	}
	if class == nil {
		return o.NoClass
	}
	return slices.ContainsFunc(o.Classes, func(pattern string) bool { return matches(pattern, *class) })
}

// matches reports whether a text matches a pattern, in which one * at the end stands for anything.
func matches(pattern, text string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(text, prefix)
	}
	return pattern == text
}

// Knows reports whether the controller reads a key, on Services or on other objects.
func (c *Catalog) Knows(key string) bool {
	if c.isElsewhere(key) {
		return true
	}
	_, _, found := c.contents().find(key)
	return found
}

// isElsewhere reports whether the controller reads a key only on other objects.
func (c *Catalog) isElsewhere(key string) bool {
	return slices.ContainsFunc(c.Elsewhere, func(pattern string) bool { return matches(pattern, key) })
}

// readsKey reports whether a key may have an effect on a Service of the controller.
func (c *Catalog) readsKey(key string) bool {
	return hasPrefix(key, c.Prefixes) || slices.Contains(c.Reads, key)
}

// concerns reports whether a key may belong to the controller according to its prefix.
func (c *Catalog) concerns(key string) bool {
	return hasPrefix(key, c.Prefixes) || hasPrefix(key, c.SharedPrefixes)
}

// claims reports whether a key indicates that a Service was written for the controller: a key under one of its own
// prefixes, a known key, or a probable typo of a known key.
func (c *Catalog) claims(key string) bool {
	switch {
	case hasPrefix(key, c.Prefixes):
		return true
	case key == corev1.AnnotationLoadBalancerSourceRangesKey, !hasPrefix(key, c.SharedPrefixes):
		return false // Kubernetes defines the first one, and many controllers read it
	case c.Knows(key):
		return true
	}
	s := c.nearest(key)
	return s.near && s.key != corev1.AnnotationLoadBalancerSourceRangesKey && !claimedElsewhere(key)
}

// claimedElsewhere reports whether any controller knows a key or is the only one that uses its prefix.
func claimedElsewhere(key string) bool {
	for _, c := range heads() {
		if hasPrefix(key, c.Prefixes) || hasPrefix(key, c.SharedPrefixes) && c.Knows(key) {
			return true
		}
	}
	return false
}

func hasPrefix(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// split splits a key after the longest matching prefix of the catalog.
func (h *Head) split(key string) (prefix, rest string) {
	for _, list := range [][]string{h.Prefixes, h.SharedPrefixes} {
		for _, p := range list {
			if strings.HasPrefix(key, p) && len(p) > len(prefix) {
				prefix = p
			}
		}
	}
	return prefix, key[len(prefix):]
}
