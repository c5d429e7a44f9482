package policy

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/loadbalancer"
)

// AnnotationDefaulted tells of a Service which policies gave it which annotations: key=Kind/name, separated by commas.
const AnnotationDefaulted = "quaymaster.dev/defaulted"

// Given is an annotation that a Service gets because it lacks it.
type Given struct {
	Key, Value string
	// By is the policy whose default it is; nil for a built-in one.
	By *Policy
}

// Complete gives a Service the defaults that hold for it as it is stored, on a copy. Of several policies' defaults it is the
// first in their order that breaks no rule; the built-in one comes last. None that would make the Service invalid is given: a
// default is for those Services that it fits. What only other clouds read is not among them: none but admission gives it.
func (j Judge) Complete(svc *corev1.Service, applicable []*Policy) (*corev1.Service, []Given) {
	return j.complete(svc, applicable, false)
}

// complete does that for a Service that admission has given, or is about to give, everything that it lacks, or for one that it
// has left alone.
func (j Judge) complete(svc *corev1.Service, applicable []*Policy, admitted bool) (*corev1.Service, []Given) {
	if !isLoadBalancer(svc) {
		return svc, nil
	}
	given := j.candidates(svc, applicable, admitted)
	if slices.ContainsFunc(given, func(g Given) bool { return g.By != nil }) {
		given = j.fitting(svc, given, applicable)
	}
	return with(svc, given), given
}

// Annotations are what admission adds to a Service that becomes a load balancer: its defaults, and where they come from.
func (j Judge) Annotations(svc *corev1.Service, applicable []*Policy) map[string]string {
	j = j.chosen(applicable)
	fresh := *svc
	// The API server has not dropped yet what somebody wrote there: it is not this Service's.
	fresh.Status = corev1.ServiceStatus{}
	_, given := j.complete(&fresh, applicable, true)
	added := map[string]string{}
	origin := origins(svc, applicable)
	for _, g := range given {
		added[g.Key] = g.Value
		if g.By != nil {
			origin[g.Key] = g.By.origin()
		}
	}
	if text := join(origin); text != svc.Annotations[AnnotationDefaulted] {
		added[AnnotationDefaulted] = text
	}
	return added
}

// candidates are the first defaults that break no rule, of keys that the Service lacks, in the order of the keys.
func (j Judge) candidates(svc *corev1.Service, applicable []*Policy, admitted bool) []Given {
	offers := map[string][]Given{}
	for _, p := range applicable {
		for key, value := range p.defaults {
			offers[key] = append(offers[key], Given{key, value, p})
		}
	}
	owned := loadbalancer.Owned(svc, j.Options)
	exists := len(svc.Status.LoadBalancer.Ingress) > 0
	for key, value := range loadbalancer.Defaults(svc, j.Options) {
		offers[key] = append(offers[key], Given{Key: key, Value: value})
	}
	var given []Given
	for _, key := range slices.Sorted(maps.Keys(offers)) {
		if _, set := svc.Annotations[key]; set || !owned && strings.HasPrefix(key, loadbalancer.Prefix) {
			continue
		}
		if !admitted && !(owned && loadbalancer.Reads(key)) {
			continue // nobody gives it any more
		}
		if d, known := loadbalancer.Lookup(key); known && d.Immutable && exists {
			continue // it has been decided
		}
		for _, offer := range offers[key] {
			if !breaksRule(key, offer.Value, applicable) {
				given = append(given, offer)
				break
			}
		}
	}
	return given
}

// breaksRule tells whether a default breaks a rule. Audit is for trying a rule out, so that it changes nothing.
func breaksRule(key, value string, applicable []*Policy) bool {
	return slices.ContainsFunc(applicable, func(p *Policy) bool {
		return severity(p.enforcement) != finding.Audit && len(p.breaches(key, value)) > 0
	})
}

// with is the Service with annotations more; the rest is shared.
func with(svc *corev1.Service, given []Given) *corev1.Service {
	if len(given) == 0 {
		return svc
	}
	completed := *svc
	completed.Annotations = make(map[string]string, len(svc.Annotations)+len(given))
	maps.Copy(completed.Annotations, svc.Annotations)
	for _, g := range given {
		completed.Annotations[g.Key] = g.Value
	}
	return &completed
}

// origin is what AnnotationDefaulted calls the policy.
func (p *Policy) origin() string { return p.key.Kind + "/" + p.key.Name }

// origins reads AnnotationDefaulted as far as it is true, for admission may be asked twice about a Service: a copied manifest
// tells where another Service's annotations came from.
func origins(svc *corev1.Service, applicable []*Policy) map[string]string {
	origin := told(svc)
	maps.DeleteFunc(origin, func(key, by string) bool {
		return !slices.ContainsFunc(applicable, func(p *Policy) bool {
			value, gives := p.defaults[key]
			return gives && p.origin() == by && svc.Annotations[key] == value
		})
	})
	return origin
}

// told is what AnnotationDefaulted says: policies by key.
func told(svc *corev1.Service) map[string]string {
	origin := map[string]string{}
	for entry := range strings.SplitSeq(svc.Annotations[AnnotationDefaulted], ",") {
		if key, by, ok := strings.Cut(entry, "="); ok {
			origin[key] = by
		}
	}
	return origin
}

func join(origin map[string]string) string {
	var entries []string
	for _, key := range slices.Sorted(maps.Keys(origin)) {
		entries = append(entries, key+"="+origin[key])
	}
	return strings.Join(entries, ",")
}
