package catalog

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// fields are what conditions can ask about a Service: the values that are there, or that the API server writes there in any
// case. What it allocates is not among them, since the linter does not see that.
var fields = map[string]func(*corev1.Service) []string{
	"metadata.name":                 func(s *corev1.Service) []string { return some(s.Name) },
	"metadata.namespace":            func(s *corev1.Service) []string { return some(s.Namespace) },
	"spec.loadBalancerIP":           func(s *corev1.Service) []string { return some(s.Spec.LoadBalancerIP) },
	"spec.loadBalancerSourceRanges": func(s *corev1.Service) []string { return s.Spec.LoadBalancerSourceRanges },
	"spec.externalIPs":              func(s *corev1.Service) []string { return s.Spec.ExternalIPs },
	"spec.externalTrafficPolicy":    func(s *corev1.Service) []string { return orElse(string(s.Spec.ExternalTrafficPolicy), "Cluster") },
	"spec.sessionAffinity":          func(s *corev1.Service) []string { return orElse(string(s.Spec.SessionAffinity), "None") },
	"spec.loadBalancerClass":        func(s *corev1.Service) []string { return given(s.Spec.LoadBalancerClass) },
	"spec.ipFamilyPolicy":           func(s *corev1.Service) []string { return given(s.Spec.IPFamilyPolicy) },
	"spec.internalTrafficPolicy":    func(s *corev1.Service) []string { return given(s.Spec.InternalTrafficPolicy) },
	"spec.ipFamilies": func(s *corev1.Service) []string {
		return each(s.Spec.IPFamilies, func(f corev1.IPFamily) string { return string(f) })
	},
	"spec.ports.port": func(s *corev1.Service) []string {
		return each(s.Spec.Ports, func(p corev1.ServicePort) string { return strconv.Itoa(int(p.Port)) })
	},
	"spec.ports.name": func(s *corev1.Service) []string {
		return each(s.Spec.Ports, func(p corev1.ServicePort) string { return p.Name })
	},
	// Those that are written down: what the API server allocates is not here.
	"spec.ports.nodePort": func(s *corev1.Service) []string {
		return each(s.Spec.Ports, func(p corev1.ServicePort) string { return written(p.NodePort) })
	},
	"spec.ports.protocol": func(s *corev1.Service) []string { return each(s.Spec.Ports, protocol) },
	"spec.ports.appProtocol": func(s *corev1.Service) []string {
		return each(s.Spec.Ports, func(p corev1.ServicePort) string { return value(p.AppProtocol) })
	},
	"spec.allocateLoadBalancerNodePorts": func(s *corev1.Service) []string {
		return []string{strconv.FormatBool(s.Spec.AllocateLoadBalancerNodePorts == nil || *s.Spec.AllocateLoadBalancerNodePorts)}
	},
	"spec.selector": selector,
}

// written is a number in words, unless it is 0.
func written(number int32) string {
	if number == 0 {
		return ""
	}
	return strconv.Itoa(int(number))
}

func protocol(p corev1.ServicePort) string {
	if p.Protocol == "" {
		return string(corev1.ProtocolTCP)
	}
	return string(p.Protocol)
}

func selector(s *corev1.Service) []string {
	var keys []string
	for key := range s.Spec.Selector {
		keys = append(keys, key)
	}
	return keys
}

// some is the text unless it is empty.
func some(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

func orElse(text, fallback string) []string {
	if text == "" {
		text = fallback
	}
	return []string{text}
}

func given[T ~string](pointer *T) []string { return some(value(pointer)) }

func value[T ~string](pointer *T) string {
	if pointer == nil {
		return ""
	}
	return string(*pointer)
}

// each maps a list; nothing that is empty is in the result.
func each[T any](list []T, text func(T) string) []string {
	var all []string
	for _, element := range list {
		all = append(all, some(text(element))...)
	}
	return all
}
