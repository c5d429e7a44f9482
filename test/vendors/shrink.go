package vendors

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// maxRounds bounds how often a Service is made smaller.
const maxRounds = 80

// shrink returns the smallest Service it finds that differs for the same reason, with its outcome.
func (c *Comparison) shrink(judge Judge, svc *corev1.Service, o outcome) (*corev1.Service, outcome, error) {
	for range maxRounds {
		candidates := smaller(svc)
		if len(candidates) == 0 {
			break
		}
		services := all(candidates, stored)
		verdicts, err := judge.Judge(services)
		if err != nil {
			return nil, outcome{}, err
		}
		found := false
		for i, candidate := range candidates {
			if next := c.compare(services[i], verdicts[i]); o.sameKind(next) {
				svc, o, found = candidate, next, true
				break
			}
		}
		if !found {
			break
		}
	}
	return svc, o, nil
}

// smaller returns Services that differ from this one in one step, towards the simplest one.
func smaller(svc *corev1.Service) []*corev1.Service {
	var candidates []*corev1.Service
	try := func(change func(*corev1.Service)) {
		candidate := svc.DeepCopy()
		change(candidate)
		candidates = append(candidates, candidate)
	}
	keys := slices.Sorted(maps.Keys(svc.Annotations))
	for _, key := range keys {
		try(func(s *corev1.Service) { delete(s.Annotations, key) })
	}
	for i := range svc.Spec.Ports {
		if len(svc.Spec.Ports) > 1 {
			try(func(s *corev1.Service) { s.Spec.Ports = slices.Delete(s.Spec.Ports, i, i+1) })
		}
	}
	smallerSpec(&svc.Spec, try)
	for i := range svc.Spec.Ports {
		smallerPort(&svc.Spec.Ports[i], func(change func(*corev1.ServicePort)) {
			try(func(s *corev1.Service) { change(&s.Spec.Ports[i]) })
		})
	}
	for _, key := range keys {
		for _, value := range shorter(svc.Annotations[key]) {
			try(func(s *corev1.Service) { s.Annotations[key] = value })
		}
	}
	return candidates
}

func smallerSpec(spec *corev1.ServiceSpec, try func(func(*corev1.Service))) {
	for _, reset := range []struct {
		set  bool
		with func(*corev1.Service)
	}{
		{spec.LoadBalancerClass != nil, func(s *corev1.Service) { s.Spec.LoadBalancerClass = nil }},
		{spec.LoadBalancerIP != "", func(s *corev1.Service) { s.Spec.LoadBalancerIP = "" }},
		{spec.LoadBalancerSourceRanges != nil, func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = nil }},
		{spec.ExternalIPs != nil, func(s *corev1.Service) { s.Spec.ExternalIPs = nil }},
		{spec.ExternalTrafficPolicy != "", func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = "" }},
		{spec.InternalTrafficPolicy != nil, func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = nil }},
		{spec.SessionAffinity != "", func(s *corev1.Service) { s.Spec.SessionAffinity = "" }},
		{spec.IPFamilies != nil, func(s *corev1.Service) { s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = nil, nil }},
		{spec.AllocateLoadBalancerNodePorts != nil, func(s *corev1.Service) { s.Spec.AllocateLoadBalancerNodePorts = nil }},
		{spec.Selector == nil, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "web"} }},
	} {
		if reset.set {
			try(reset.with)
		}
	}
}

func smallerPort(port *corev1.ServicePort, try func(func(*corev1.ServicePort))) {
	if port.Protocol != "" {
		try(func(p *corev1.ServicePort) { p.Protocol = "" })
	}
	if port.AppProtocol != nil {
		try(func(p *corev1.ServicePort) { p.AppProtocol = nil })
	}
	if port.TargetPort != (intstr.IntOrString{}) {
		try(func(p *corev1.ServicePort) { p.TargetPort = intstr.IntOrString{} })
	}
}

// shorter returns parts of a value.
func shorter(value string) []string {
	runes := []rune(value)
	half := len(runes) / 2
	switch len(runes) {
	case 0:
		return nil
	case 1:
		return []string{""}
	}
	parts := []string{string(runes[:half]), string(runes[half:])}
	if len(runes) <= 40 {
		for i := range runes {
			parts = append(parts, string(runes[:i])+string(runes[i+1:]))
		}
	}
	return parts
}

// all applies a function to every element.
func all[From, To any](list []From, apply func(From) To) []To {
	results := make([]To, 0, len(list))
	for _, one := range list {
		results = append(results, apply(one))
	}
	return results
}
