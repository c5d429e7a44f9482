// Package review decides on a Service as a whole: its annotations are parsed once, defaulted by policies, and validated by catalogs
// and policies. Admission, controllers, linter and audit share it, so that they cannot disagree.
package review

import (
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/policy"
)

// Reviewer reviews Services by catalogs and policies. The zero Reviewer has no catalogs.
type Reviewer struct{ set catalog.Set }

// New returns a Reviewer. An error names a catalog that does not exist.
func New(o catalog.Options) (Reviewer, error) {
	set, err := catalog.NewSet(o)
	return Reviewer{set: set}, err
}

// Own returns a Reviewer by the catalog of Quaymaster's own controller, which serves Services of a loadBalancerClass besides those
// without one.
func Own(class string) Reviewer { return Reviewer{set: catalog.Own(class)} }

// Review reviews a Service at admission. oldSvc is nil on creation. An update is reviewed with the defaults that the controllers
// will apply: it may need one of them, such as the certificate of a new listener. What an update does not introduce is a warning.
func (r Reviewer) Review(oldSvc, newSvc *corev1.Service, policies []*policy.Policy) []finding.Finding {
	set := r.in(policies)
	is, was := set.Parse(newSvc), set.Parse(oldSvc)
	switch {
	case !is.LoadBalancer():
		return nil
	case !was.LoadBalancer():
		// The mutating webhook has written the defaults; where it was bypassed, the Service is validated as it is.
		findings := is.Validate()
		if len(policies) > 0 {
			findings = append(findings, policy.Validate(withDefaults(is, policies, true).Parsed, policies)...)
		}
		return finding.Merge(findings)
	}
	now, then := &defaulted{Parsed: is}, was
	if len(policies) > 0 {
		now, then = withDefaults(is, policies, false), withDefaults(was, policies, false).Parsed
	}
	findings := append(now.validate(), policy.Validate(now.Parsed, policies)...)
	var before []finding.Finding
	if len(finding.Errors(findings)) > 0 {
		before = append(then.Validate(), policy.Validate(then, policies)...)
	}
	return finding.Ratchet(before, append(findings, now.Changes(then)...))
}

// Rules validates a Service by the rules of policies alone, with the defaults that it gets. former is nil if there was none; what it
// broke already is a warning.
func (r Reviewer) Rules(former *corev1.Service, is *catalog.Parsed, policies []*policy.Policy) []finding.Finding {
	if len(policies) == 0 {
		return nil
	}
	was := r.set.Parse(former)
	if !was.LoadBalancer() {
		return finding.Merge(policy.Validate(withDefaults(is, policies, true).Parsed, policies))
	}
	return finding.Ratchet(policy.Validate(withDefaults(was, policies, false).Parsed, policies),
		policy.Validate(withDefaults(is, policies, false).Parsed, policies))
}

// Parse parses a Service.
func (r Reviewer) Parse(svc *corev1.Service) *catalog.Parsed { return r.set.Parse(svc) }

// Default returns a Service with the defaults that hold for it as it is stored.
func (r Reviewer) Default(p *catalog.Parsed, policies []*policy.Policy) *catalog.Parsed {
	return withDefaults(p, policies, false).Parsed
}

// Defaults returns the annotations that admission adds to a Service that becomes a load balancer: its defaults, and which policies
// they come from.
func (r Reviewer) Defaults(svc *corev1.Service, policies []*policy.Policy) map[string]string {
	fresh := *svc
	// The API server has not yet dropped a status that a client wrote: it is not this Service's.
	fresh.Status = corev1.ServiceStatus{}
	d := withDefaults(r.in(policies).Parse(&fresh), policies, true)
	return policy.Annotations(svc, d.given, policies)
}

// in returns the catalogs of a namespace, which its policies may choose.
func (r Reviewer) in(policies []*policy.Policy) catalog.Set {
	if names, chosen := policy.Catalogs(policies); chosen {
		return r.set.With(names)
	}
	return r.set
}

// Owned reports whether Quaymaster's own controller acts on a Service.
func (r Reviewer) Owned(svc *corev1.Service) bool { return r.set.Parse(svc).Own() != nil }
