// Package catalog parses and validates Services as the load balancer controllers of clouds do: which annotations each
// reads, in which dialect, and what it does with a value that it cannot parse.
//
// The descriptions are data in the format of package document: one YAML file per controller in catalogs/. What an entry
// cannot express is a function of package check that the file names. Package library has the catalogs, prepared for use.
// None of them uses a client, a clock or the network.
package catalog

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
)

// owns reports whether the controller acts on the Service, as far as the Service shows it.
func (v *View) owns() bool {
	o := v.catalog.Owns
	if len(o.Also) > 0 && v.any(o.Also, service) {
		return true
	}
	if !v.set.serves(v.catalog, v.Service.Spec.LoadBalancerClass) {
		return false
	}
	fails := func(c document.Condition) bool { return v.none([]document.Condition{c}, service) }
	return !slices.ContainsFunc(o.When, fails) && (len(o.Any) == 0 || !v.none(o.Any, service))
}

// Owned reports whether Quaymaster's own controller acts on a Service. Its class decides that, so that no annotation is
// parsed.
func (s Set) Owned(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && slices.ContainsFunc(s.catalogs, func(c *library.Catalog) bool {
		return c.Own && s.serves(c, svc.Spec.LoadBalancerClass)
	})
}

// serves reports whether the controller of a catalog acts on Services of a class, as far as the class decides.
func (s Set) serves(c *library.Catalog, class *string) bool {
	if c.Own && class == nil {
		return s.o.DefaultClass && c.Owns.Class(nil)
	}
	return c.Owns.Class(class) || c.Own && *class == s.o.Class
}
