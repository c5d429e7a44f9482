package catalog

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Catalog is what is known of one controller. It never changes.
type Catalog struct {
	Head
	read func() *contents
}

// Document is the catalog as it was written, with what it leaves out filled in. Nobody may change it.
func (c *Catalog) Document() Document { return Document{Head: c.Head, Body: c.read().Body} }

// Owns tells whether the controller acts on a Service, as far as the Service tells.
func (c *Catalog) Owns(svc *corev1.Service) bool {
	return svc != nil && svc.Spec.Type == corev1.ServiceTypeLoadBalancer && c.view(svc).owned()
}

// owned tells whether the controller acts on the load balancer.
func (r *reading) owned() bool {
	o := r.catalog.Head.Owns
	if len(o.Also) > 0 && slices.ContainsFunc(o.Also, func(condition Condition) bool { return r.all([]Condition{condition}, nil) }) {
		return true
	}
	if !o.class(r.svc.Spec.LoadBalancerClass) {
		return false
	}
	fails := func(condition Condition) bool { return r.none([]Condition{condition}, nil) }
	return !slices.ContainsFunc(o.When, fails) && (len(o.Any) == 0 || !r.none(o.Any, nil))
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

// matches compares with a pattern, where one * at the end stands for anything.
func matches(pattern, text string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(text, prefix)
	}
	return pattern == text
}

// Knows tells whether a key means something to the controller, if only on other objects.
func (c *Catalog) Knows(key string) bool {
	if slices.ContainsFunc(c.Elsewhere, func(pattern string) bool { return matches(pattern, key) }) {
		return true
	}
	_, _, found := c.read().find(key)
	return found
}

// Concerns tells whether a key may be the controller's, by its prefix.
func (c *Catalog) Concerns(key string) bool {
	return hasPrefix(key, c.Prefixes) || hasPrefix(key, c.SharedPrefixes)
}

// claims tells whether a key shows that a Service was written for the controller: one under a prefix of its own, one that it
// knows, or one that nobody knows and that is near to one that it does.
func (c *Catalog) claims(key string) bool {
	switch {
	case hasPrefix(key, c.Prefixes):
		return true
	case key == corev1.AnnotationLoadBalancerSourceRangesKey, !hasPrefix(key, c.SharedPrefixes):
		return false // the first is Kubernetes' own: many controllers read it
	case c.Knows(key):
		return true
	}
	nearest, near := c.nearest(key)
	return near && nearest != corev1.AnnotationLoadBalancerSourceRangesKey && !anybodys(key)
}

// anybodys tells whether any controller knows a key or has its prefix to itself.
func anybodys(key string) bool {
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
