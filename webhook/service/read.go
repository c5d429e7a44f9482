package service

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quaymaster.dev/internal/review"
	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/stream"
)

var _, _ webhook.ObjectReader = (*Validator)(nil), (*Mutator)(nil)

// ReadObject reads a Service.
func (*Validator) ReadObject(r *stream.Reader) runtime.Object { return read(r) }

// ReadObject reads a Service.
func (*Mutator) ReadObject(r *stream.Reader) runtime.Object { return read(r) }

// What a Service may have more of is counted, but not read. A Service with more ports, source ranges or external IPs is
// refused, as package review says, and the API server refuses one with more of the others.
const (
	mostListed   = review.MaxListed + 1
	mostOthers   = 16
	mostSelected = 1000
)

// read reads those fields of a Service that admission uses. A test compares them with what the code refers to.
func read(r *stream.Reader) *corev1.Service {
	svc := &corev1.Service{}
	for name := range r.Members() {
		if webhook.ReadMember(r, name, &svc.TypeMeta, &svc.ObjectMeta, func(name []byte) bool {
			if string(name) != "annotations" {
				return false
			}
			stream.Annotations(r, &svc.Annotations)
			return true
		}) {
			continue
		}
		switch string(name) {
		case "spec":
			readSpec(r, &svc.Spec)
		case "status":
			readStatus(r, &svc.Status)
		default:
			r.Skip()
		}
	}
	return svc
}

func readSpec(r *stream.Reader, spec *corev1.ServiceSpec) {
	for name := range r.Members() {
		switch string(name) {
		case "type":
			stream.String(r, &spec.Type)
		case "ports":
			stream.List(r, &spec.Ports, mostListed, readPort, func(p *corev1.ServicePort, rest string) { p.Name = rest })
		case "selector":
			stream.Strings(r, &spec.Selector, func([]byte) bool { return len(spec.Selector) < mostSelected })
		case "clusterIPs":
			stream.Texts(r, &spec.ClusterIPs, mostOthers)
		case "externalIPs":
			stream.Texts(r, &spec.ExternalIPs, mostListed)
		case "loadBalancerIP":
			stream.String(r, &spec.LoadBalancerIP)
		case "loadBalancerSourceRanges":
			stream.Texts(r, &spec.LoadBalancerSourceRanges, mostListed)
		case "loadBalancerClass":
			stream.Pointer(r, &spec.LoadBalancerClass, stream.String)
		case "allocateLoadBalancerNodePorts":
			stream.Pointer(r, &spec.AllocateLoadBalancerNodePorts, stream.Bool)
		case "ipFamilies":
			stream.Texts(r, &spec.IPFamilies, mostOthers)
		case "ipFamilyPolicy":
			stream.Pointer(r, &spec.IPFamilyPolicy, stream.String)
		case "externalTrafficPolicy":
			stream.String(r, &spec.ExternalTrafficPolicy)
		case "internalTrafficPolicy":
			stream.Pointer(r, &spec.InternalTrafficPolicy, stream.String)
		case "sessionAffinity":
			stream.String(r, &spec.SessionAffinity)
		case "sessionAffinityConfig":
			stream.Pointer(r, &spec.SessionAffinityConfig, readAffinity)
		default:
			r.Skip()
		}
	}
}

func readPort(r *stream.Reader, port *corev1.ServicePort) {
	for name := range r.Members() {
		switch string(name) {
		case "name":
			stream.String(r, &port.Name)
		case "protocol":
			stream.String(r, &port.Protocol)
		case "appProtocol":
			stream.Pointer(r, &port.AppProtocol, stream.String)
		case "port":
			stream.Int32(r, &port.Port)
		case "targetPort":
			readIntOrString(r, &port.TargetPort)
		case "nodePort":
			stream.Int32(r, &port.NodePort)
		default:
			r.Skip()
		}
	}
}

func readIntOrString(r *stream.Reader, value *intstr.IntOrString) {
	if r.IsString() {
		value.Type = intstr.String
		stream.String(r, &value.StrVal)
		return
	}
	value.Type = intstr.Int
	stream.Int32(r, &value.IntVal)
}

func readAffinity(r *stream.Reader, config *corev1.SessionAffinityConfig) {
	for name := range r.Members() {
		if string(name) == "clientIP" {
			stream.Pointer(r, &config.ClientIP, readClientIP)
		} else {
			r.Skip()
		}
	}
}

func readClientIP(r *stream.Reader, config *corev1.ClientIPConfig) {
	for name := range r.Members() {
		if string(name) == "timeoutSeconds" {
			stream.Pointer(r, &config.TimeoutSeconds, stream.Int32)
		} else {
			r.Skip()
		}
	}
}

func readStatus(r *stream.Reader, status *corev1.ServiceStatus) {
	for name := range r.Members() {
		if string(name) == "loadBalancer" {
			readLoadBalancer(r, &status.LoadBalancer)
		} else {
			r.Skip()
		}
	}
}

func readLoadBalancer(r *stream.Reader, status *corev1.LoadBalancerStatus) {
	for name := range r.Members() {
		if string(name) == "ingress" {
			stream.List(r, &status.Ingress, mostOthers, readAddress, func(*corev1.LoadBalancerIngress, string) {})
		} else {
			r.Skip()
		}
	}
}

// readAddress reads an address of the load balancer: only their number matters.
func readAddress(r *stream.Reader, _ *corev1.LoadBalancerIngress) {
	for range r.Members() {
		r.Skip()
	}
}
