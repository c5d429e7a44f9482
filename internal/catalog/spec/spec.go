// Package spec returns the fields of Services that conditions and checks of catalogs ask about, as texts.
package spec

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// fields are what conditions can ask about a Service: values that are set, or that the API server always defaults. Values that it
// allocates are not among them, since the linter does not see those.
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
	"spec.ports.port":        ofPorts(Number),
	"spec.ports.name":        ofPorts(portFields["spec.ports.name"]),
	"spec.ports.nodePort":    ofPorts(portFields["spec.ports.nodePort"]),
	"spec.ports.protocol":    ofPorts(Protocol),
	"spec.ports.appProtocol": ofPorts(portFields["spec.ports.appProtocol"]),
	"spec.allocateLoadBalancerNodePorts": func(s *corev1.Service) []string {
		return []string{strconv.FormatBool(s.Spec.AllocateLoadBalancerNodePorts == nil || *s.Spec.AllocateLoadBalancerNodePorts)}
	},
	"spec.selector": selector,
}

// portFields are those of one port.
var portFields = map[string]func(corev1.ServicePort) string{
	"spec.ports.port": Number,
	"spec.ports.name": func(p corev1.ServicePort) string { return p.Name },
	// Only one that is in the manifest: what the API server allocates is not known to the linter.
	"spec.ports.nodePort":    func(p corev1.ServicePort) string { return written(p.NodePort) },
	"spec.ports.protocol":    Protocol,
	"spec.ports.appProtocol": func(p corev1.ServicePort) string { return value(p.AppProtocol) },
}

func ofPorts(text func(corev1.ServicePort) string) func(*corev1.Service) []string {
	return func(s *corev1.Service) []string { return each(s.Spec.Ports, text) }
}

// Has reports whether a path is a field that conditions can ask about.
func Has(path string) bool { return fields[path] != nil }

// OfPorts reports whether a field belongs to ports.
func OfPorts(path string) bool { return portFields[path] != nil }

// Values returns the values of a field; none if it is empty.
func Values(svc *corev1.Service, path string) []string { return fields[path](svc) }

// PortValues returns the values of a field as it is for one port.
func PortValues(svc *corev1.Service, path string, port int) []string {
	if ofPort := portFields[path]; ofPort != nil {
		return some(ofPort(svc.Spec.Ports[port]))
	}
	return fields[path](svc)
}

// Listener returns the identity of a port's listener, such as tcp/443.
func Listener(p corev1.ServicePort) string { return strings.ToLower(Protocol(p)) + "/" + Number(p) }

// Number returns the number of a port.
func Number(p corev1.ServicePort) string { return strconv.Itoa(int(p.Port)) }

// Suffix returns the suffix of a key's form for a port: its name, unless that would be taken for a number, because a number may mean
// two ports.
func Suffix(p corev1.ServicePort) string {
	if strings.Trim(p.Name, "0123456789") != "" {
		return p.Name
	}
	return Number(p)
}

// written formats a number, unless it is 0.
func written(number int32) string {
	if number == 0 {
		return ""
	}
	return strconv.Itoa(int(number))
}

// Protocol returns the protocol of a port, TCP by default.
func Protocol(p corev1.ServicePort) string {
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

// some returns the text unless it is empty.
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

// each maps a list and drops empty results.
func each[T any](list []T, text func(T) string) []string {
	var all []string
	for _, element := range list {
		all = append(all, some(text(element))...)
	}
	return all
}
