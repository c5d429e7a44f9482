package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/visible"
)

const (
	// AnnotationDefaulted records the origins of the defaults that a Service has: key=Kind/name for a policy and
	// key=built-in otherwise, separated by commas.
	AnnotationDefaulted = "quaymaster.dev/defaulted"
	// AnnotationRefresh on a load balancer requests its current defaults, each time that it gets another value.
	AnnotationRefresh = "quaymaster.dev/refresh-defaults"
	// BuiltIn is the origin of a default that no policy sets.
	BuiltIn = "built-in"
)

// origin returns the policy's name in AnnotationDefaulted.
func (p *Policy) origin() string { return p.key.Kind + "/" + p.key.Name }

func (d Default) origin() string {
	switch {
	case d.By != nil:
		return d.By.origin()
	case d.recorded != "":
		return d.recorded
	}
	return BuiltIn
}

// maxRecord and maxEntries bound the record that is parsed, which any user may write. Policies set fewer defaults.
const (
	maxRecord  = 64 << 10
	maxEntries = 1000
)

// Origins parses AnnotationDefaulted and returns the origins by key; none if it is longer than any that admission writes.
func Origins(annotations map[string]string) map[string]string {
	record := annotations[AnnotationDefaulted]
	if record == "" {
		return nil
	}
	origin := map[string]string{}
	if len(record) > maxRecord || strings.Count(record, ",") >= maxEntries {
		return origin
	}
	for entry := range strings.SplitSeq(record, ",") {
		if key, by, ok := strings.Cut(entry, "="); ok {
			origin[key] = by
		}
	}
	return origin
}

// record adds AnnotationDefaulted to the annotations that are added to a Service, if it changes.
func record(added map[string]string, svc *corev1.Service, origin map[string]string, defaults []Default) {
	all := make(map[string]string, len(origin)+len(defaults))
	maps.Copy(all, origin)
	for _, d := range slices.Backward(defaults) { // of several with the same key, the first one counts
		all[d.Key] = d.origin()
	}
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if text.Len() > 0 {
			text.WriteByte(',')
		}
		text.WriteString(key + "=" + all[key])
	}
	if text.String() != svc.Annotations[AnnotationDefaulted] {
		added[AnnotationDefaulted] = text.String()
	}
}

// isCurrent reports whether a recorded origin is one that would be recorded now: a copied manifest may contain the
// origins of another Service's annotations.
func isCurrent(svc *corev1.Service, key, by string, applicable []*Policy) bool {
	value, set := svc.Annotations[key]
	if !set || by == BuiltIn {
		return set && isBuiltIn(key, value)
	}
	return slices.ContainsFunc(applicable, func(p *Policy) bool {
		byDefault, sets := p.defaults[key]
		return sets && byDefault == value && p.origin() == by
	})
}

// isBuiltIn reports whether a value is the built-in default that admission writes.
func isBuiltIn(key, value string) bool {
	a, known := ownAnnotation(key)
	return known && a.WriteDefault && a.Default == value
}

func isImmutable(key string) bool {
	a, known := ownAnnotation(key)
	return known && a.Immutable
}

func ownAnnotation(key string) (*document.Annotation, bool) {
	own, isOwn := library.BuiltIn().OwnCatalog(key)
	if !isOwn {
		return nil, false
	}
	return own.Plain(key)
}

// origin returns what set a default of the Service that is validated, such as "the built-in default"; it returns the
// empty string for a value of the Service's author.
func (w *work) origin(svc *corev1.Service, key string) string {
	const longest = 64
	if svc.Annotations[AnnotationDefaulted] == "" {
		return ""
	}
	if w.origins == nil {
		w.origins = Origins(svc.Annotations)
	}
	by := w.origins[key]
	if by == BuiltIn {
		if !isBuiltIn(key, svc.Annotations[key]) {
			return ""
		}
		return "the built-in default"
	}
	kind, name, _ := strings.Cut(by, "/")
	if kind != v1alpha1.KindLoadBalancerPolicy && kind != v1alpha1.KindClusterLoadBalancerPolicy {
		return ""
	}
	return fmt.Sprintf("the default of %s %q", kind, visible.Shorten(name, longest))
}
