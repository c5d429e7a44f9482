package policy

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
)

// AnnotationDefaulted records which policies gave a Service which annotations: key=Kind/name, separated by commas.
const AnnotationDefaulted = "quaymaster.dev/defaulted"

// Default is an annotation that a Service gets because it lacks it.
type Default struct {
	Key, Value string
	// By is the policy whose default it is; nil for a built-in one.
	By *Policy
}

// Defaults returns the defaults of the keys that a Service lacks, in the order of the keys: of several policies' defaults the first
// in their order that breaks no rule, then the built-in one. admission is true for a Service that admission has given, or is about
// to give, all of them; otherwise only what Quaymaster's own controller reads has a default, which that applies itself.
func Defaults(p *catalog.Parsed, applicable []*Policy, admission bool) []Default {
	if !p.LoadBalancer() {
		return nil
	}
	offers := map[string][]Default{}
	for _, policy := range applicable {
		for key, value := range policy.defaults {
			offers[key] = append(offers[key], Default{key, value, policy})
		}
	}
	for key, value := range p.WrittenDefaults() {
		offers[key] = append(offers[key], Default{Key: key, Value: value})
	}
	svc := p.Service
	hasAddress := len(svc.Status.LoadBalancer.Ingress) > 0
	var defaults []Default
	for _, key := range slices.Sorted(maps.Keys(offers)) {
		if _, set := svc.Annotations[key]; set || !admission && !p.ReadByOwn(key) {
			continue
		}
		if own, isOwn := catalog.OwnCatalog(key); isOwn {
			if p.View(own.Name) == nil {
				continue
			}
			if a, known := own.Plain(key); known && a.Immutable && hasAddress {
				continue // it has been decided
			}
		}
		at := slices.IndexFunc(offers[key], func(d Default) bool { return !breaksRule(key, d.Value, applicable) })
		if at >= 0 {
			defaults = append(defaults, offers[key][at])
		}
	}
	return defaults
}

// breaksRule reports whether a default breaks a rule. Audit is for trying out a rule, so it changes nothing.
func breaksRule(key, value string, applicable []*Policy) bool {
	return slices.ContainsFunc(applicable, func(p *Policy) bool {
		return severity(p.enforcement) != finding.Audit && len(p.breaches(key, value)) > 0
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

// Annotations returns what admission adds to a Service: its defaults, and which policies they come from.
func Annotations(svc *corev1.Service, defaults []Default, applicable []*Policy) map[string]string {
	added := Values(defaults)
	origin := trueOrigins(svc, applicable)
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

// CarryOver returns the immutable annotations that an update must keep. Whoever replaces a whole Service does not know of those that
// a policy gave it, and to leave them out would be a change that is refused. Other defaults go: to remove one is a decision.
func CarryOver(oldSvc, newSvc *corev1.Service) map[string]string {
	kept, origin := map[string]string{}, map[string]string{}
	for key, by := range Origins(oldSvc.Annotations) {
		value, had := oldSvc.Annotations[key]
		if _, has := newSvc.Annotations[key]; has || !had || !immutable(key) {
			continue
		}
		kept[key], origin[key] = value, by
	}
	if _, has := newSvc.Annotations[AnnotationDefaulted]; !has && len(kept) > 0 {
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

// origin is how AnnotationDefaulted names the policy.
func (p *Policy) origin() string { return p.key.Kind + "/" + p.key.Name }

// trueOrigins returns the origins as far as they are true: a copied manifest records where another Service's annotations came from.
func trueOrigins(svc *corev1.Service, applicable []*Policy) map[string]string {
	origin := Origins(svc.Annotations)
	maps.DeleteFunc(origin, func(key, by string) bool {
		return !slices.ContainsFunc(applicable, func(p *Policy) bool {
			value, gives := p.defaults[key]
			return gives && p.origin() == by && svc.Annotations[key] == value
		})
	})
	return origin
}

// Origins returns what AnnotationDefaulted records: policies by key.
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
