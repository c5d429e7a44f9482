package loadbalancer

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Former is the Service of which its load balancer, as it is, was made: svc without what want, its desired state, has
// otherwise. So controllers, which never see an old object, can tell what is new as admission does. What the Service said
// where it differs is not known; the annotation is missing then, or empty where svc has none.
func Former(svc *corev1.Service, want, is *Desired) *corev1.Service {
	s := read(svc)
	former := *svc
	former.Annotations = map[string]string{}
	maps.Copy(former.Annotations, svc.Annotations)
	for _, d := range known().service {
		if !equal(d.Of(want), d.Of(is)) {
			forget(former.Annotations, s.byName[d.Name], d.Key)
		}
	}
	for i, l := range want.Listeners {
		at := slices.IndexFunc(is.Listeners, func(was Listener) bool { return was.Key() == l.Key() })
		if at < 0 {
			continue
		}
		for _, d := range known().listener {
			if equal(d.Of(&l), d.Of(&is.Listeners[at])) {
				continue
			}
			var governor []*setting
			if one := s.governor(d.Name, i); one != nil {
				governor = append(governor, one)
			}
			forget(former.Annotations, governor, d.Key+"."+s.listeners[i].suffix())
		}
	}
	former.Spec.Ports = nil
	for i, l := range want.Listeners {
		if slices.ContainsFunc(is.Listeners, func(was Listener) bool { return was.Key() == l.Key() }) {
			former.Spec.Ports = append(former.Spec.Ports, svc.Spec.Ports[i])
		}
	}
	forgetPorts(&former, s)
	return &former
}

// forget removes what says a value. Where nothing does, something unreadable takes its place: a default does not say it. So it
// does where a plain key would come to say of a port what its own form said.
func forget(annotations map[string]string, said []*setting, key string) {
	for _, one := range said {
		if _, plain := annotations[one.Key]; plain && one.suffix != "" {
			annotations[one.key] = ""
			continue
		}
		delete(annotations, one.key)
	}
	if len(said) == 0 {
		annotations[key] = ""
	}
}

// forgetPorts removes what the Service says of ports that are new alone: without them it would look like a slip, behind which
// any value may have been meant.
func forgetPorts(former *corev1.Service, s *settings) {
	was := read(former)
	for _, one := range s.all {
		if len(one.ports) == 0 {
			continue
		}
		if ports, _ := was.resolve(one.suffix); len(ports) == 0 {
			delete(former.Annotations, one.key)
		}
	}
}
