// Package spec returns the fields of Services that conditions and checks of catalogs use, as texts.
package spec

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// fields holds the fields that conditions can use: values that are set, or that the API server always defaults. They do
// not include values that the API server allocates, because the linter does not see these.
var fields = map[string]func(*corev1.Service) []string{
	"metadata.name":                 func(s *corev1.Service) []string { return nonEmpty(s.Name) },
	"metadata.namespace":            func(s *corev1.Service) []string { return nonEmpty(s.Namespace) },
	"spec.loadBalancerIP":           func(s *corev1.Service) []string { return nonEmpty(s.Spec.LoadBalancerIP) },
	"spec.loadBalancerSourceRanges": func(s *corev1.Service) []string { return s.Spec.LoadBalancerSourceRanges },
	"spec.externalIPs":              func(s *corev1.Service) []string { return s.Spec.ExternalIPs },
	"spec.externalTrafficPolicy": func(s *corev1.Service) []string {
		return withDefault(string(s.Spec.ExternalTrafficPolicy), "Cluster")
	},
	"spec.sessionAffinity": func(s *corev1.Service) []string {
		return withDefault(string(s.Spec.SessionAffinity), "None")
	},
	"spec.loadBalancerClass":     func(s *corev1.Service) []string { return optional(s.Spec.LoadBalancerClass) },
	"spec.ipFamilyPolicy":        func(s *corev1.Service) []string { return optional(s.Spec.IPFamilyPolicy) },
	"spec.internalTrafficPolicy": func(s *corev1.Service) []string { return optional(s.Spec.InternalTrafficPolicy) },
	"spec.ipFamilies": func(s *corev1.Service) []string {
		return each(s.Spec.IPFamilies, func(f corev1.IPFamily) string { return string(f) })
	},
	"spec.ports.port":        ofPorts(Number),
	"spec.ports.name":        ofPorts(portFields["spec.ports.name"]),
	"spec.ports.nodePort":    ofPorts(portFields["spec.ports.nodePort"]),
	"spec.ports.protocol":    ofPorts(Protocol),
	"spec.ports.appProtocol": ofPorts(portFields["spec.ports.appProtocol"]),
	"spec.allocateLoadBalancerNodePorts": func(s *corev1.Service) []string {
		allocate := s.Spec.AllocateLoadBalancerNodePorts
		return []string{strconv.FormatBool(allocate == nil || *allocate)}
	},
	"spec.selector": selector,
}

// portFields holds the fields of one port.
var portFields = map[string]func(corev1.ServicePort) string{
	"spec.ports.port": Number,
	"spec.ports.name": func(p corev1.ServicePort) string { return p.Name },
	// Only a node port in the manifest: the linter does not know one that the API server allocates.
	"spec.ports.nodePort":    func(p corev1.ServicePort) string { return written(p.NodePort) },
	"spec.ports.protocol":    Protocol,
	"spec.ports.appProtocol": func(p corev1.ServicePort) string { return value(p.AppProtocol) },
}

func ofPorts(text func(corev1.ServicePort) string) func(*corev1.Service) []string {
	return func(s *corev1.Service) []string { return each(s.Spec.Ports, text) }
}

// Has reports whether a path is a field that conditions can use.
func Has(path string) bool { return fields[path] != nil }

// OfPorts reports whether a field belongs to ports.
func OfPorts(path string) bool { return portFields[path] != nil }

// Values returns the values of a field; none if it is empty.
func Values(svc *corev1.Service, path string) []string { return fields[path](svc) }

// PortValues returns the values of a field of one port, or of any other field.
func PortValues(svc *corev1.Service, path string, port int) []string {
	if ofPort := portFields[path]; ofPort != nil {
		return nonEmpty(ofPort(svc.Spec.Ports[port]))
	}
	return fields[path](svc)
}

// Listener returns the identity of a port's listener, such as tcp/443.
func Listener(p corev1.ServicePort) string { return strings.ToLower(Protocol(p)) + "/" + Number(p) }

// Number returns the number of a port.
func Number(p corev1.ServicePort) string { return strconv.Itoa(int(p.Port)) }

// Suffix returns the suffix of a key's form for a port: its name, because a number may refer to two ports, unless the
// name consists of digits and would be parsed as a number.
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
	return slices.Sorted(maps.Keys(s.Spec.Selector))
}

// nonEmpty returns the text unless it is empty.
func nonEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

func withDefault(text, fallback string) []string {
	if text == "" {
		text = fallback
	}
	return []string{text}
}

func optional[T ~string](pointer *T) []string { return nonEmpty(value(pointer)) }

func value[T ~string](pointer *T) string {
	if pointer == nil {
		return ""
	}
	return string(*pointer)
}

// each converts the elements of a list to texts, without empty ones.
func each[T any](list []T, text func(T) string) []string {
	var all []string
	for _, element := range list {
		all = append(all, nonEmpty(text(element))...)
	}
	return all
}
