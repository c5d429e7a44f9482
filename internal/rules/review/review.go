// Package review validates a Service as a whole: it parses the annotations once, adds the defaults of policies, and
// validates the result by catalogs and policies. Admission, controllers, linter and audit share it, so that their
// findings never differ.
package review

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
)

// Reviewer reviews Services by catalogs and policies. The zero Reviewer has no catalogs.
type Reviewer struct {
	// set has the catalogs of Services, services their names, and kinds the names of those of other objects.
	set             catalog.Set
	services, kinds []string
	// ofOthers is true if set has the latter, because other objects are reviewed.
	ofOthers bool
	// alone is true if no controller of Quaymaster applies defaults to the Services.
	alone bool
}

// New returns a Reviewer. It fails if a catalog does not exist.
func New(o catalog.Options) (Reviewer, error) {
	set, err := catalog.NewSet(o)
	if err != nil {
		return Reviewer{}, err
	}
	var services, kinds []string
	for _, name := range o.Catalogs {
		if c, _ := set.Library().Find(name); len(c.Kinds) > 0 {
			kinds = append(kinds, name)
		} else {
			services = append(services, name)
		}
	}
	return Reviewer{set: set.With(services), services: services, kinds: kinds}, nil
}

// Library returns where the catalogs come from; nil for the zero Reviewer.
func (r Reviewer) Library() *library.Library { return r.set.Library() }

// Own returns a Reviewer with the catalog of Quaymaster's own controller, which serves Services with the
// loadBalancerClass and, with defaultClass, those without one.
func Own(class string, defaultClass bool) Reviewer {
	return Reviewer{set: catalog.Own(class, defaultClass)}
}

// WithoutControllers returns the Reviewer for a cluster in which Quaymaster only runs admission: a default that admission
// has not written never applies.
func (r Reviewer) WithoutControllers() Reviewer {
	r.alone = true
	return r
}

// Review validates a Service at admission. oldSvc is nil on creation. A Service is validated with the defaults that the
// controllers will apply, because it may require one of them, such as the certificate of a new listener. It gets no
// credit for other defaults: if the mutating webhook was not called, nothing writes them. Problems that an update does
// not introduce are warnings.
func (r Reviewer) Review(oldSvc, newSvc *corev1.Service, policies []*policy.Policy) []finding.Finding {
	set := r.in(policies)
	if oldSvc != nil && newSvc != nil {
		// Which defaults hold depends on whether there is an address already, and not on one that this update writes.
		updated := *newSvc
		updated.Status = oldSvc.Status
		newSvc = &updated
	}
	if excess := exceeds(set, newSvc); excess != nil {
		return ratchet(oldSvc, newSvc, exceeds(set, oldSvc), excess)
	}
	current := set.Parse(newSvc)
	var old *catalog.Parsed
	if oldSvc != nil && exceeds(set, oldSvc) == nil { // otherwise it was not validated, and nothing of it counts as old
		old = set.Parse(oldSvc)
	}
	switch {
	case !current.LoadBalancer():
		return finding.Merge(idle(set, newSvc))
	case !old.LoadBalancer():
		// The mutating webhook has written the defaults. If it was bypassed, catalogs validate the Service without
		// them.
		findings := append(append(current.Validate(), strays(set, newSvc)...), r.misplaced(set, newSvc)...)
		if len(policies) > 0 {
			broken := policy.Validate(r.Default(current, policies), policies)
			findings = append(findings, explainUnwritten(broken, current, policies)...)
		}
		return finding.Merge(findings)
	}
	if len(policies) > 0 {
		current, old = r.Default(current, policies), r.Default(old, policies)
	}
	stray := strays(set, newSvc)
	findings := append(append(current.Validate(), policy.Validate(current, policies)...), stray...)
	var oldFindings []finding.Finding
	if finding.Deny(findings) {
		oldFindings = slices.Concat(old.Validate(), policy.Validate(old, policies), strayBefore(set, oldSvc, stray))
	}
	return ratchet(oldSvc, newSvc, oldFindings, append(append(findings, r.misplaced(set, newSvc)...), current.Changes(old)...))
}

// Preview validates a Service as admission would if it was created, with all the defaults that admission would write.
func (r Reviewer) Preview(svc *corev1.Service, policies []*policy.Policy) []finding.Finding {
	return r.whole(svc, policies, true)
}

// Stored validates a Service in a cluster, with the defaults that the controllers apply.
func (r Reviewer) Stored(svc *corev1.Service, policies []*policy.Policy) []finding.Finding {
	return r.whole(svc, policies, false)
}

// whole returns all findings about a Service. admission is as in policy.Defaults.
func (r Reviewer) whole(svc *corev1.Service, policies []*policy.Policy, admission bool) []finding.Finding {
	set := r.in(policies)
	if excess := exceeds(set, svc); excess != nil {
		return excess
	}
	p := set.Parse(svc)
	if !p.LoadBalancer() {
		return finding.Merge(slices.Concat(idle(set, svc), ofAnyType(set, svc), r.misplaced(set, svc)))
	}
	if len(policies) > 0 {
		p = withDefaults(p, policies, admission)
	}
	return finding.Merge(slices.Concat(p.Validate(), policy.Validate(p, policies), strays(set, svc), r.misplaced(set, svc)))
}

// Rules validates a Service with its defaults only by the rules of policies. former is the previous state of the
// Service, nil if there is none; rules that it already breaks cause warnings. current may lack defaults: those that its
// load balancer has kept from applying.
func (r Reviewer) Rules(former *corev1.Service, current *catalog.Parsed, policies []*policy.Policy) []finding.Finding {
	if len(policies) == 0 {
		return nil
	}
	if excess := exceeds(r.set, current.Service); excess != nil {
		return excess
	}
	old := r.set.Parse(former)
	findings := policy.Validate(withDefaults(current, policies, false), policies)
	if !old.LoadBalancer() {
		return finding.Merge(findings)
	}
	return ratchet(former, current.Service, policy.Validate(withDefaults(old, policies, false), policies), findings)
}

// Parse parses a Service.
func (r Reviewer) Parse(svc *corev1.Service) *catalog.Parsed { return r.set.Parse(svc) }

// Defaults returns the annotations that admission adds to a Service that becomes a load balancer: its defaults, and the
// policies that set them.
func (r Reviewer) Defaults(svc *corev1.Service, policies []*policy.Policy) map[string]string {
	if len(svc.Status.LoadBalancer.Ingress) > 0 {
		// The API server has not yet dropped a status that the client wrote, such as that of a copied Service.
		fresh := *svc
		fresh.Status = corev1.ServiceStatus{}
		svc = &fresh
	}
	set := r.in(policies)
	if exceeds(set, svc) != nil {
		return nil // it will be refused
	}
	p := set.Parse(svc)
	defaults := policy.Defaults(p, policies, true)
	if slices.ContainsFunc(defaults, policy.Default.FromPolicy) {
		_, defaults = fitting(p, defaults)
	}
	return policy.Annotations(svc, defaults, policies)
}

// in returns the catalogs of a namespace, which its policies may select.
func (r Reviewer) in(policies []*policy.Policy) catalog.Set {
	if names, selected := policy.Catalogs(policies); selected {
		return r.set.With(names)
	}
	return r.set
}

// Served reports whether Quaymaster's controllers validate a Service and apply its defaults again after admission.
func (r Reviewer) Served(svc *corev1.Service) bool { return !r.alone && r.Owned(svc) }

// Owned reports whether Quaymaster's own controller acts on a Service.
func (r Reviewer) Owned(svc *corev1.Service) bool { return r.set.Owned(svc) }
