package catalog

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Catalog is what is known of the annotations of one controller. It never changes.
type Catalog struct {
	Head
	contents func() *contents
}

// Document returns the catalog as it was written, with what it leaves out filled in. It must not be changed.
func (c *Catalog) Document() Document { return Document{Head: c.Head, Body: c.contents().Body} }

// Plain returns the annotation with this name, which has no placeholders.
func (c *Catalog) Plain(key string) (*Annotation, bool) {
	if e, found := c.contents().byName[key]; found {
		return e.Annotation, true
	}
	return nil, false
}

// HasPortForm reports whether a key is the form for a port of a known one, and returns that.
func (c *Catalog) HasPortForm(key string) (plain string, ok bool) {
	plain, _, cut := c.cutPort(key)
	_, known := c.contents().byName[plain]
	return plain, cut && known
}

// owns reports whether the controller acts on the Service, as far as the Service shows.
func (v *View) owns() bool {
	o := v.catalog.Owns
	if len(o.Also) > 0 && v.any(o.Also, service) {
		return true
	}
	if class := v.Service.Spec.LoadBalancerClass; !o.class(class) && !(v.catalog.Own && class != nil && *class == v.class) {
		return false
	}
	fails := func(c Condition) bool { return v.none([]Condition{c}, service) }
	return !slices.ContainsFunc(o.When, fails) && (len(o.Any) == 0 || !v.none(o.Any, service))
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

// matches compares a text with a pattern, in which one * at the end stands for anything.
func matches(pattern, text string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(text, prefix)
	}
	return pattern == text
}

// Knows reports whether a key means something to the controller, if only on other objects.
func (c *Catalog) Knows(key string) bool {
	if c.elsewhere(key) {
		return true
	}
	_, _, found := c.contents().find(key)
	return found
}

// elsewhere reports whether a key means something on other objects only.
func (c *Catalog) elsewhere(key string) bool {
	return slices.ContainsFunc(c.Elsewhere, func(pattern string) bool { return matches(pattern, key) })
}

// ReadsKey reports whether a key may have an effect on a Service of the controller.
func (c *Catalog) ReadsKey(key string) bool {
	return hasPrefix(key, c.Prefixes) || slices.Contains(c.Reads, key)
}

// Concerns reports whether a key may be the controller's, by its prefix.
func (c *Catalog) Concerns(key string) bool {
	return hasPrefix(key, c.Prefixes) || hasPrefix(key, c.SharedPrefixes)
}

// claims reports whether a key shows that a Service was written for the controller: one under a prefix of its own, a known one, or
// an unknown one that is near to a known one.
func (c *Catalog) claims(key string) bool {
	switch {
	case hasPrefix(key, c.Prefixes):
		return true
	case key == corev1.AnnotationLoadBalancerSourceRangesKey, !hasPrefix(key, c.SharedPrefixes):
		return false // the first is Kubernetes' own: many controllers read it
	case c.Knows(key):
		return true
	}
	s := c.nearest(key)
	return s.near && s.key != corev1.AnnotationLoadBalancerSourceRangesKey && !claimedElsewhere(key)
}

// claimedElsewhere reports whether any controller knows a key or has its prefix to itself.
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

// split cuts a key behind the longest of the catalog's prefixes that it has.
func (c *Catalog) split(key string) (prefix, rest string) {
	for _, list := range [][]string{c.Prefixes, c.SharedPrefixes} {
		for _, p := range list {
			if strings.HasPrefix(key, p) && len(p) > len(prefix) {
				prefix = p
			}
		}
	}
	return prefix, key[len(prefix):]
}
