package loadbalancer

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/catalog/spec"
)

// Former returns the Service from which the load balancer was built as it is: the Service without what want, its desired state, has
// otherwise. With it controllers, which never see an old object, know what is new, as admission does. What the Service said
// where it differs is not known; the annotation is missing then, or empty where the Service has none.
func Former(v *catalog.View, want, is *Desired) *corev1.Service {
	svc := v.Service
	former := *svc
	former.Annotations = map[string]string{}
	maps.Copy(former.Annotations, svc.Annotations)
	for _, f := range fields().service {
		if !f.equal(want, is) {
			forget(former.Annotations, v.Settings(f.key), f.key)
		}
	}
	former.Spec.Ports = nil
	kept := map[int]bool{}
	for i := range want.Listeners {
		l := &want.Listeners[i]
		at := slices.IndexFunc(is.Listeners, func(was Listener) bool { return was.Key() == l.Key() })
		if at < 0 {
			continue
		}
		former.Spec.Ports, kept[i] = append(former.Spec.Ports, svc.Spec.Ports[i]), true
		for _, f := range fields().listener {
			if f.equal(l, &is.Listeners[at]) {
				continue
			}
			var governor []*catalog.Setting
			if s := v.Governor(f.key, i); s != nil {
				governor = append(governor, s)
			}
			forget(former.Annotations, governor, f.key+"."+spec.Suffix(svc.Spec.Ports[i]))
		}
	}
	// Without the ports that are new, their annotations would look like typos, behind which any value may have been meant.
	for _, f := range fields().listener {
		for _, s := range v.Settings(f.key) {
			if ports := s.Ports(); len(ports) > 0 && !slices.ContainsFunc(ports, func(i int) bool { return kept[i] }) {
				delete(former.Annotations, s.Key)
			}
		}
	}
	return &former
}

// forget removes the annotations that set a value. Where none does, an empty one takes its place: a default does not say it. So
// it does where a plain key would come to govern a port that its own form governed.
func forget(annotations map[string]string, settings []*catalog.Setting, key string) {
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
