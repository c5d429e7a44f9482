package service

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quaymaster.dev/internal/jsonreader"
	"quaymaster.dev/webhook"
)

var _, _ webhook.ObjectReader = (*Validator)(nil), (*Mutator)(nil)

// ReadObject reads a Service.
func (*Validator) ReadObject(r *jsonreader.Reader) runtime.Object { return read(r) }

// ReadObject reads a Service.
func (*Mutator) ReadObject(r *jsonreader.Reader) runtime.Object { return read(r) }

// read reads those fields of a Service that admission uses. A test compares them with what the code refers to.
func read(r *jsonreader.Reader) *corev1.Service {
	svc := &corev1.Service{}
	for name := range r.Members() {
		switch name {
		case "apiVersion":
			jsonreader.String(r, &svc.APIVersion)
		case "kind":
			jsonreader.String(r, &svc.Kind)
		case "metadata":
			readMetadata(r, &svc.ObjectMeta)
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

func readMetadata(r *jsonreader.Reader, meta *metav1.ObjectMeta) {
	for name := range r.Members() {
		switch name {
		case "name":
			jsonreader.String(r, &meta.Name)
		case "generateName":
			jsonreader.String(r, &meta.GenerateName)
		case "namespace":
			jsonreader.String(r, &meta.Namespace)
		case "deletionTimestamp":
			jsonreader.Pointer(r, &meta.DeletionTimestamp, readTime)
		case "annotations":
			jsonreader.Strings(r, &meta.Annotations)
		default:
			r.Skip()
		}
	}
}

func readTime(r *jsonreader.Reader, t *metav1.Time) { r.Unmarshal(t) }

func readSpec(r *jsonreader.Reader, spec *corev1.ServiceSpec) {
	for name := range r.Members() {
		switch name {
		case "type":
			jsonreader.String(r, &spec.Type)
		case "ports":
			jsonreader.List(r, &spec.Ports, readPort)
		case "selector":
			jsonreader.Strings(r, &spec.Selector)
		case "clusterIPs":
			jsonreader.List(r, &spec.ClusterIPs, jsonreader.String)
		case "externalIPs":
			jsonreader.List(r, &spec.ExternalIPs, jsonreader.String)
		case "loadBalancerIP":
			jsonreader.String(r, &spec.LoadBalancerIP)
		case "loadBalancerSourceRanges":
			jsonreader.List(r, &spec.LoadBalancerSourceRanges, jsonreader.String)
		case "loadBalancerClass":
			jsonreader.Pointer(r, &spec.LoadBalancerClass, jsonreader.String)
		case "allocateLoadBalancerNodePorts":
			jsonreader.Pointer(r, &spec.AllocateLoadBalancerNodePorts, jsonreader.Bool)
		case "ipFamilies":
			jsonreader.List(r, &spec.IPFamilies, jsonreader.String)
		case "ipFamilyPolicy":
			jsonreader.Pointer(r, &spec.IPFamilyPolicy, jsonreader.String)
		case "externalTrafficPolicy":
			jsonreader.String(r, &spec.ExternalTrafficPolicy)
		case "internalTrafficPolicy":
			jsonreader.Pointer(r, &spec.InternalTrafficPolicy, jsonreader.String)
		case "sessionAffinity":
			jsonreader.String(r, &spec.SessionAffinity)
		case "sessionAffinityConfig":
			jsonreader.Pointer(r, &spec.SessionAffinityConfig, readAffinity)
		default:
			r.Skip()
		}
	}
}

func readPort(r *jsonreader.Reader, port *corev1.ServicePort) {
	for name := range r.Members() {
		switch name {
		case "name":
			jsonreader.String(r, &port.Name)
		case "protocol":
			jsonreader.String(r, &port.Protocol)
		case "appProtocol":
			jsonreader.Pointer(r, &port.AppProtocol, jsonreader.String)
		case "port":
			jsonreader.Int32(r, &port.Port)
		case "targetPort":
			readIntOrString(r, &port.TargetPort)
		case "nodePort":
			jsonreader.Int32(r, &port.NodePort)
		default:
			r.Skip()
		}
	}
}

func readIntOrString(r *jsonreader.Reader, value *intstr.IntOrString) {
	if r.IsString() {
		value.Type = intstr.String
		jsonreader.String(r, &value.StrVal)
		return
	}
	value.Type = intstr.Int
	jsonreader.Int32(r, &value.IntVal)
}

func readAffinity(r *jsonreader.Reader, config *corev1.SessionAffinityConfig) {
	for name := range r.Members() {
		if name == "clientIP" {
			jsonreader.Pointer(r, &config.ClientIP, readClientIP)
		} else {
			r.Skip()
		}
	}
}

func readClientIP(r *jsonreader.Reader, config *corev1.ClientIPConfig) {
	for name := range r.Members() {
		if name == "timeoutSeconds" {
			jsonreader.Pointer(r, &config.TimeoutSeconds, jsonreader.Int32)
		} else {
			r.Skip()
		}
	}
}

func readStatus(r *jsonreader.Reader, status *corev1.ServiceStatus) {
	for name := range r.Members() {
		if name == "loadBalancer" {
			readLoadBalancer(r, &status.LoadBalancer)
		} else {
			r.Skip()
		}
	}
}

func readLoadBalancer(r *jsonreader.Reader, status *corev1.LoadBalancerStatus) {
	for name := range r.Members() {
		if name == "ingress" {
			jsonreader.List(r, &status.Ingress, readAddress)
		} else {
			r.Skip()
		}
	}
}

// readAddress reads an address of the load balancer: only their number matters.
func readAddress(r *jsonreader.Reader, _ *corev1.LoadBalancerIngress) {
	for range r.Members() {
		r.Skip()
	}
}
