package review

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/policy"
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
	kept := fitting(base, policy.Allowed(u.Lost, policies), policies)
	defaults := slices.Concat(u.Immutable, kept.defaults)
	if refresh {
		if current, ok := refreshed(kept.Parsed, slices.Concat(u.Recorded(), keysOf(kept.defaults)), policies); ok {
			return u.Annotations(slices.Concat(defaults, current))
		}
	}
	lost := keysOf(u.Lost)
	current := slices.DeleteFunc(policy.Defaults(kept.Parsed, policies, true), func(d policy.Default) bool {
		return !slices.Contains(lost, d.Key)
	})
	return u.Annotations(slices.Concat(defaults, fitting(kept.Parsed, current, policies).defaults))
}

// refreshed returns the current defaults of a Service. A recorded default without a successor keeps its value. ok is
// false if the result would be invalid, because other annotations only fit the recorded values.
func refreshed(
	p *catalog.Parsed, recorded []string, policies []*policy.Policy,
) (defaults []policy.Default, ok bool) {
	succeeded := slices.DeleteFunc(keysOf(policy.Defaults(p.Without(recorded...), policies, true)),
		func(key string) bool { return !slices.Contains(recorded, key) })
	base := p.Without(succeeded...)
	result := fitting(base, policy.Defaults(base, policies, true), policies)
	restored := map[string]string{}
	added := keysOf(result.defaults)
	for _, key := range succeeded {
		if !slices.Contains(added, key) {
			restored[key] = p.Service.Annotations[key]
		}
	}
	return result.defaults, !finding.Introduces(p.Validate(), result.With(restored).Validate())
}

func keysOf(defaults []policy.Default) []string {
	keys := make([]string, len(defaults))
	for i, d := range defaults {
		keys[i] = d.Key
	}
	return keys
}
