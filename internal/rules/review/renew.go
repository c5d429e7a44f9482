package review

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
)

// Renew returns the annotations that admission sets in an update of a load balancer. If the update replaces the whole
// Service, it keeps the defaults that its author does not know: with their values, because the load balancer works with
// them, or with current ones if a rule or another annotation of the new Service forbids that. refresh is true if the
// current defaults are requested: as on creation, but for missing annotations and recorded defaults.
func (r Reviewer) Renew(
	oldSvc, newSvc *corev1.Service, policies []*policy.Policy, refresh bool,
) map[string]string {
	set := r.in(policies)
	if exceeds(set, newSvc) != nil || exceeds(set, oldSvc) != nil {
		return nil // it will be refused
	}
	u := policy.NewUpdate(oldSvc, newSvc, policies)
	updated := *newSvc
	updated.Status = oldSvc.Status
	base := set.Parse(&updated).With(policy.Values(u.Immutable))
	lost := keysOf(u.Lost)
	current := slices.DeleteFunc(policy.Defaults(base, policies, true), func(d policy.Default) bool {
		return !slices.Contains(lost, d.Key)
	})
	with, kept := fitting(base, slices.Concat(policy.Allowed(base, u.Lost, policies), current))
	if refresh {
		if renewed := refreshed(with, slices.Concat(u.Recorded(), kept), policies); renewed != nil {
			return u.Annotations(slices.Concat(u.Immutable, renewed, kept))
		}
	}
	return u.Annotations(slices.Concat(u.Immutable, kept))
}

// refreshed returns the current defaults of a Service, and the recorded values of those that do not fit. It returns nil
// if the result would be invalid, because other annotations only fit recorded values.
func refreshed(p *catalog.Parsed, recorded []policy.Default, policies []*policy.Policy) []policy.Default {
	current := policy.Defaults(p.Without(keysOf(recorded)...), policies, true)
	successors := keysOf(current)
	recorded = slices.DeleteFunc(recorded, func(d policy.Default) bool { return !slices.Contains(successors, d.Key) })
	with, result := fitting(p.Without(keysOf(recorded)...), slices.Concat(current, recorded))
	added := keysOf(result)
	if slices.ContainsFunc(recorded, func(d policy.Default) bool { return !slices.Contains(added, d.Key) }) ||
		finding.Introduces(p.Validate(), with.Validate()) {
		return nil
	}
	return result
}

func keysOf(defaults []policy.Default) []string {
	keys := make([]string, len(defaults))
	for i, d := range defaults {
		keys[i] = d.Key
	}
	return keys
}
