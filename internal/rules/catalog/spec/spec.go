// Package spec returns the fields of Services that conditions and checks of catalogs use, as texts.
package spec

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// paths holds the fields that conditions can use: values that are set, or that the API server always defaults. They do
// not include values that the API server allocates, because the linter does not see these.
var paths = []string{
	"metadata.name", "metadata.namespace", "spec.loadBalancerIP", "spec.loadBalancerSourceRanges", "spec.externalIPs",
	"spec.externalTrafficPolicy", "spec.sessionAffinity", "spec.loadBalancerClass", "spec.ipFamilyPolicy",
	"spec.internalTrafficPolicy", "spec.ipFamilies", "spec.allocateLoadBalancerNodePorts", "spec.selector",
	portNumber, portName, portNodePort, portProtocol, portAppProtocol,
}

// The fields of a port.
const (
	portNumber      = "spec.ports.port"
	portName        = "spec.ports.name"
	portNodePort    = "spec.ports.nodePort"
	portProtocol    = "spec.ports.protocol"
	portAppProtocol = "spec.ports.appProtocol"
)

// Has reports whether a path is a field that conditions can use.
func Has(path string) bool { return slices.Contains(paths, path) }

// OfPorts reports whether a field belongs to ports.
func OfPorts(path string) bool { return strings.HasPrefix(path, "spec.ports.") }

// Values returns the values of a field; none if it is empty.
func Values(svc *corev1.Service, path string) []string { return Append(nil, svc, path) }

// Append appends the values of a field, so that the caller's buffer can take them.
func Append(values []string, svc *corev1.Service, path string) []string {
	spec := &svc.Spec
	switch path {
	case "metadata.name":
		return nonEmpty(values, svc.Name)
	case "metadata.namespace":
		return nonEmpty(values, svc.Namespace)
	case "spec.loadBalancerIP":
		return nonEmpty(values, spec.LoadBalancerIP)
	case "spec.loadBalancerSourceRanges":
		return append(values, spec.LoadBalancerSourceRanges...)
	case "spec.externalIPs":
		return append(values, spec.ExternalIPs...)
	case "spec.externalTrafficPolicy":
		return append(values, cmp.Or(string(spec.ExternalTrafficPolicy), "Cluster"))
	case "spec.sessionAffinity":
		return append(values, cmp.Or(string(spec.SessionAffinity), "None"))
	case "spec.loadBalancerClass":
		return nonEmpty(values, value(spec.LoadBalancerClass))
	case "spec.ipFamilyPolicy":
		return nonEmpty(values, value(spec.IPFamilyPolicy))
	case "spec.internalTrafficPolicy":
		return nonEmpty(values, value(spec.InternalTrafficPolicy))
	case "spec.ipFamilies":
		for _, family := range spec.IPFamilies {
			values = nonEmpty(values, string(family))
		}
		return values
	case "spec.allocateLoadBalancerNodePorts":
		allocate := spec.AllocateLoadBalancerNodePorts
		return append(values, strconv.FormatBool(allocate == nil || *allocate))
	case "spec.selector":
		return append(values, slices.Sorted(maps.Keys(spec.Selector))...)
	}
	for i := range spec.Ports {
		values = nonEmpty(values, ofPort(&spec.Ports[i], path))
	}
	return values
}

// AppendPort appends the value of a field of one port, or the values of any other field.
func AppendPort(values []string, svc *corev1.Service, path string, port int) []string {
	if OfPorts(path) {
		return nonEmpty(values, ofPort(&svc.Spec.Ports[port], path))
	}
	return Append(values, svc, path)
}

// ofPort returns a field of a port.
func ofPort(p *corev1.ServicePort, path string) string {
	switch path {
	case portNumber:
		return Number(*p)
	case portName:
		return p.Name
	case portNodePort:
		// Only a node port in the manifest: the linter does not know one that the API server allocates.
		return written(p.NodePort)
	case portProtocol:
		return Protocol(*p)
	case portAppProtocol:
		return value(p.AppProtocol)
	}
	panic("unknown field " + path)
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

// nonEmpty appends the text unless it is empty.
func nonEmpty(values []string, text string) []string {
	if text == "" {
		return values
	}
	return append(values, text)
}

func value[T ~string](pointer *T) string {
	if pointer == nil {
		return ""
	}
	return string(*pointer)
}
