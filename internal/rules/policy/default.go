package policy

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
)

// Default is the default of an annotation that a Service lacks.
type Default struct {
	Key, Value string
	// By is the policy that sets the default; nil for a built-in one, and for one that was written earlier.
	By *Policy
	// recorded is the origin of a default that was written earlier.
	recorded string
}

// FromPolicy reports whether a policy sets the default, or once did. A built-in one fits every Service.
func (d Default) FromPolicy() bool { return d.origin() != BuiltIn }

// Defaults returns the defaults of the annotations that a Service lacks, in the order of precedence. Of several defaults
// of a key, the first one that breaks no rule applies: in the order of the policies, then the built-in one. admission is
// true if admission writes all defaults into the Service; otherwise only annotations that Quaymaster's own controller
// reads have defaults, which the controller applies itself.
func Defaults(p *catalog.Parsed, applicable []*Policy, admission bool) []Default {
	if !p.LoadBalancer() {
		return nil
	}
	w, all := newWork(), candidates(p, applicable)
	defaults := all[:0]
	for _, d := range all {
		aliases := p.Aliases(d.Key)
		decided := slices.ContainsFunc(defaults, func(other Default) bool {
			return other.Key == d.Key || slices.Contains(aliases, other.Key)
		})
		if !decided && !slices.ContainsFunc(aliases, p.Sets) && (admission || p.ReadByOwn(d.Key)) && hasEffect(p, d.Key) &&
			!breaksRule(d, aliases, applicable, w) {
			defaults = append(defaults, d)
		}
	}
	return defaults
}

// candidates returns the defaults of the annotations that a Service lacks, by precedence and then by key.
func candidates(p *catalog.Parsed, applicable []*Policy) []Default {
	var all []Default
	add := func(d Default) {
		if !p.Sets(d.Key) {
			all = append(all, d)
		}
	}
	for _, policy := range applicable {
		for _, key := range policy.keys {
			add(Default{Key: key, Value: policy.defaults[key], By: policy})
		}
	}
	last := len(all)
	for key, value := range p.WrittenDefaults() {
		add(Default{Key: key, Value: value})
	}
	slices.SortFunc(all[last:], func(a, b Default) int { return cmp.Compare(a.Key, b.Key) })
	return all
}

// hasEffect reports whether a default can have an effect: not if it belongs to our own controller, but the Service does
// not, or if the load balancer exists and cannot change.
func hasEffect(p *catalog.Parsed, key string) bool {
	own, isOwn := library.BuiltIn().OwnCatalog(key)
	exists := len(p.Service.Status.LoadBalancer.Ingress) > 0
	return !isOwn || p.View(own.Name) != nil && !(exists && isImmutable(key))
}

// breaksRule reports whether a default breaks a rule. It ignores rules with enforcement Audit, which must not change
// anything.
func breaksRule(d Default, aliases []string, applicable []*Policy, w *work) bool {
	return slices.ContainsFunc(applicable, func(p *Policy) bool {
		return severity(p.enforcement) != finding.Audit && len(p.breaches(d.Key, aliases, d.Value, w)) > 0
	})
}

// Values returns defaults as annotations. Of defaults with the same key, the first one counts.
func Values(defaults []Default) map[string]string {
	values := make(map[string]string, len(defaults))
	for _, d := range defaults {
		if _, set := values[d.Key]; !set {
			values[d.Key] = d.Value
		}
	}
	return values
}

// Annotations returns the annotations that admission adds to a Service: its defaults, and their origins.
func Annotations(svc *corev1.Service, defaults []Default, applicable []*Policy) map[string]string {
	if len(defaults) == 0 && svc.Annotations[AnnotationDefaulted] == "" {
		return nil
	}
	added := Values(defaults)
	origin := Origins(svc.Annotations)
	maps.DeleteFunc(origin, func(key, by string) bool { return !isCurrent(svc, key, by, applicable) })
	record(added, svc, origin, defaults)
	return added
}
