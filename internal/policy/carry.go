package policy

import (
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/loadbalancer"
)

// CarryOver are the immutable annotations that an update must keep. Whoever replaces a whole Service does not know of those that
// a policy gave it, and to leave them out would be a change that is refused. Other defaults go: whoever removes one means to.
func CarryOver(oldSvc, newSvc *corev1.Service) map[string]string {
	kept, origin := map[string]string{}, map[string]string{}
	for key, by := range told(oldSvc) {
		d, known := loadbalancer.Lookup(key)
		value, had := oldSvc.Annotations[key]
		if _, has := newSvc.Annotations[key]; has || !had || !known || !d.Immutable {
			continue
		}
		kept[key], origin[key] = value, by
	}
	if _, has := newSvc.Annotations[AnnotationDefaulted]; !has && len(kept) > 0 {
		kept[AnnotationDefaulted] = join(origin)
	}
	return kept
}
