package policy

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/internal/rules"
)

// AnnotationDefaulted tells of a Service which policies gave it which annotations: key=Kind/name, separated by commas.
const AnnotationDefaulted = "quaymaster.dev/defaulted"

// Given is an annotation that a Service gets because it lacks it.
type Given struct {
	Key, Value string
	// By is the policy whose default it is; nil for a built-in one.
	By *Policy
}

// Complete gives a Service its defaults, on a copy. Of several policies' defaults it is the first in their order that breaks
// no rule; the built-in one comes last. None that would make the Service invalid is given: a default is for those Services
// that it fits.
func (j Judge) Complete(svc *corev1.Service, applicable []*Policy) (*corev1.Service, []Given) {
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return svc, nil
	}
	given := j.candidates(svc, applicable)
	if slices.ContainsFunc(given, func(g Given) bool { return g.By != nil }) {
		given = j.fitting(svc, given)
	}
	return with(svc, given), given
}

// Annotations are what admission adds to a Service: its defaults, and where they come from.
func (j Judge) Annotations(svc *corev1.Service, applicable []*Policy) map[string]string {
	_, given := j.Complete(svc, applicable)
	added := map[string]string{}
	origin := origins(svc)
	for _, g := range given {
		added[g.Key] = g.Value
		delete(origin, g.Key)
		if g.By != nil {
			origin[g.Key] = g.By.key.Kind + "/" + g.By.key.Name
		}
	}
	if text := join(origin); text != "" && text != svc.Annotations[AnnotationDefaulted] && len(given) > 0 {
		added[AnnotationDefaulted] = text
	}
	return added
}

// candidates are the first defaults that break no rule, of keys that the Service lacks, in the order of the keys.
func (j Judge) candidates(svc *corev1.Service, applicable []*Policy) []Given {
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
	for _, p := range applicable {
		if severity(p.enforcement) == rules.Audit {
			continue
		}
		for i := range p.rules {
			if r := &p.rules[i]; r.key == key && len(r.judgeText(value)) > 0 {
				return true
			}
		}
	}
	return false
}

// fitting leaves out the policies' defaults that bring in errors, such as a certificate for a load balancer without https.
func (j Judge) fitting(svc *corev1.Service, given []Given) []Given {
	before := loadbalancer.Review(nil, svc, j.Options)
	for {
		least := j.introduced(svc, before, given)
		if least == 0 {
			return given
		}
		without, found := given, false
		for i, g := range given {
			if g.By == nil {
				continue
			}
			rest := slices.Delete(slices.Clone(given), i, i+1)
			if n := j.introduced(svc, before, rest); n < least {
				without, least, found = rest, n, true
			}
		}
		if !found {
			// None alone is at fault.
			return slices.DeleteFunc(given, func(g Given) bool { return g.By != nil })
		}
		given = without
	}
}

// introduced counts the errors that a Service has only with defaults.
func (j Judge) introduced(svc *corev1.Service, before []rules.Finding, given []Given) int {
	return len(rules.Introduced(before, loadbalancer.Review(nil, with(svc, given), j.Options)))
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

// origins reads AnnotationDefaulted as far as the keys are there: admission may be asked twice about a Service.
func origins(svc *corev1.Service) map[string]string {
	origin := map[string]string{}
	for entry := range strings.SplitSeq(svc.Annotations[AnnotationDefaulted], ",") {
		key, by, ok := strings.Cut(entry, "=")
		if _, set := svc.Annotations[key]; ok && set {
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
