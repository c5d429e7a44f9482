package loadbalancer

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/spec"
)

// Former reconstructs the Service that matches the actual load balancer: the Service without the annotations and ports
// in which its desired state want differs from actual. Controllers, which never see an old object, use it to find out
// what a change introduces, as admission does. The old value of an annotation that differs is not known: the annotation
// is then missing, or empty if the Service does not have it.
func Former(v *catalog.View, want, actual *Desired) *corev1.Service {
	svc := v.Service
	former := *svc
	former.Annotations = map[string]string{}
	maps.Copy(former.Annotations, svc.Annotations)
	for _, f := range fields().service {
		if !f.equal(want, actual) {
			removeValue(former.Annotations, v.Settings(f.key), f.key)
		}
	}
	former.Spec.Ports = nil
	kept := map[int]bool{}
	for i := range want.Listeners {
		l := &want.Listeners[i]
		at := slices.IndexFunc(actual.Listeners, func(other Listener) bool { return other.Key() == l.Key() })
		if at < 0 {
			continue
		}
		former.Spec.Ports, kept[i] = append(former.Spec.Ports, svc.Spec.Ports[i]), true
		for _, f := range fields().listener {
			if f.equal(l, &actual.Listeners[at]) {
				continue
			}
			var governor []*catalog.Setting
			if s := v.Governor(f.key, i); s != nil {
				governor = append(governor, s)
			}
			removeValue(former.Annotations, governor, f.key+"."+spec.Suffix(svc.Spec.Ports[i]))
		}
	}
	// Remove the annotations of new ports. Without the ports they would look like typos, which make other values
	// unknown.
	for _, f := range fields().listener {
		for _, s := range v.Settings(f.key) {
			if ports := s.Ports(); len(ports) > 0 && !slices.ContainsFunc(ports, func(i int) bool { return kept[i] }) {
				delete(former.Annotations, s.Key)
			}
		}
	}
	return &former
}

// removeValue removes the annotations that set a value. It adds an empty annotation if none does, because the default
// is not the old value, and if a plain key would otherwise govern a port instead of the removed form.
func removeValue(annotations map[string]string, settings []*catalog.Setting, key string) {
	for _, s := range settings {
		if _, plain := annotations[s.Name]; plain && s.Key != s.Name {
			annotations[s.Key] = ""
			continue
		}
		delete(annotations, s.Key)
	}
	if len(settings) == 0 {
		annotations[key] = ""
	}
}
