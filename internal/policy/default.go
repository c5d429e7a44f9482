package policy

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
)

// AnnotationDefaulted records the policies whose defaults a Service has: key=Kind/name, separated by commas.
const AnnotationDefaulted = "quaymaster.dev/defaulted"

// Default is the default of an annotation that a Service lacks.
type Default struct {
	Key, Value string
	// By is the policy that sets the default; nil for a built-in one.
	By *Policy
}

// Defaults returns the defaults of the annotations that a Service lacks, sorted by key. Of several defaults of a key,
// the first one that breaks no rule applies, in the order of the policies, then the built-in one. admission is true if
// admission writes all defaults into the Service; otherwise only annotations that Quaymaster's own controller reads
// have defaults, which the controller applies itself.
func Defaults(p *catalog.Parsed, applicable []*Policy, admission bool) []Default {
	if !p.LoadBalancer() {
		return nil
	}
	candidates := map[string][]Default{}
	for _, policy := range applicable {
		for key, value := range policy.defaults {
			candidates[key] = append(candidates[key], Default{key, value, policy})
		}
	}
	for key, value := range p.WrittenDefaults() {
		candidates[key] = append(candidates[key], Default{Key: key, Value: value})
	}
	svc := p.Service
	hasAddress := len(svc.Status.LoadBalancer.Ingress) > 0
	w := newWork()
	var defaults []Default
	for _, key := range slices.Sorted(maps.Keys(candidates)) {
		if _, set := svc.Annotations[key]; set || !admission && !p.ReadByOwn(key) {
			continue
		}
		if own, isOwn := catalog.OwnCatalog(key); isOwn {
			if p.View(own.Name) == nil {
				continue
			}
			if a, known := own.Plain(key); known && a.Immutable && hasAddress {
				continue // the load balancer exists and cannot change
			}
		}
		at := slices.IndexFunc(candidates[key], func(d Default) bool { return !breaksRule(key, d.Value, applicable, w) })
		if at >= 0 {
			defaults = append(defaults, candidates[key][at])
		}
	}
	return defaults
}

// breaksRule reports whether a default breaks a rule. It ignores rules with enforcement Audit, which must not change
// anything.
func breaksRule(key, value string, applicable []*Policy, w *work) bool {
	return slices.ContainsFunc(applicable, func(p *Policy) bool {
		return severity(p.enforcement) != finding.Audit && len(p.breaches(key, value, w)) > 0
	})
}

// Values returns defaults as annotations.
func Values(defaults []Default) map[string]string {
	values := make(map[string]string, len(defaults))
	for _, d := range defaults {
		values[d.Key] = d.Value
	}
	return values
}

// Annotations returns the annotations that admission adds to a Service: its defaults, and the policies that set them.
func Annotations(svc *corev1.Service, defaults []Default, applicable []*Policy) map[string]string {
	added := Values(defaults)
	origin := currentOrigins(svc, applicable)
	for _, d := range defaults {
		if d.By != nil {
			origin[d.Key] = d.By.origin()
		}
	}
	if text := formatOrigins(origin); text != svc.Annotations[AnnotationDefaulted] {
		added[AnnotationDefaulted] = text
	}
	return added
}

// CarryOver returns the immutable annotations that an update must keep. A client that replaces a whole Service does not
// know the defaults that a policy added to it, and leaving out an immutable one would be refused as a change. Other
// defaults are removed: users may remove a default on purpose.
func CarryOver(oldSvc, newSvc *corev1.Service) map[string]string {
	kept, origin := map[string]string{}, map[string]string{}
	for key, by := range Origins(oldSvc.Annotations) {
		value, wasSet := oldSvc.Annotations[key]
		if _, isSet := newSvc.Annotations[key]; isSet || !wasSet || !immutable(key) {
			continue
		}
		kept[key], origin[key] = value, by
	}
	if _, isSet := newSvc.Annotations[AnnotationDefaulted]; !isSet && len(kept) > 0 {
		kept[AnnotationDefaulted] = formatOrigins(origin)
	}
	return kept
}

func immutable(key string) bool {
	own, isOwn := catalog.OwnCatalog(key)
	if !isOwn {
		return false
	}
	a, known := own.Plain(key)
	return known && a.Immutable
}

// origin returns the policy's name in AnnotationDefaulted.
func (p *Policy) origin() string { return p.key.Kind + "/" + p.key.Name }

// currentOrigins returns the recorded origins that are correct: a copied manifest may contain the origins of another
// Service's annotations.
func currentOrigins(svc *corev1.Service, applicable []*Policy) map[string]string {
	origin := Origins(svc.Annotations)
	maps.DeleteFunc(origin, func(key, by string) bool {
		return !slices.ContainsFunc(applicable, func(p *Policy) bool {
			value, set := p.defaults[key]
			return set && p.origin() == by && svc.Annotations[key] == value
		})
	})
	return origin
}

// Origins parses AnnotationDefaulted and returns policies by key.
func Origins(annotations map[string]string) map[string]string {
	origin := map[string]string{}
	for entry := range strings.SplitSeq(annotations[AnnotationDefaulted], ",") {
		if key, by, ok := strings.Cut(entry, "="); ok {
			origin[key] = by
		}
	}
	return origin
}

func formatOrigins(origin map[string]string) string {
	var entries []string
	for _, key := range slices.Sorted(maps.Keys(origin)) {
		entries = append(entries, key+"="+origin[key])
	}
	return strings.Join(entries, ",")
}
