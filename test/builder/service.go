// Package builder builds valid objects for tests, changed by options.
package builder

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServiceOption changes a Service.
type ServiceOption func(*corev1.Service)

// Service returns a Service of type LoadBalancer with TCP port 80 named web.
func Service(options ...ServiceOption) *corev1.Service {
	svc := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "0a1b2c3d-0000-4000-8000-000000000001"},
		Spec: corev1.ServiceSpec{
			Type:  corev1.ServiceTypeLoadBalancer,
			Ports: []corev1.ServicePort{{Name: "web", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
		},
	}
	for _, option := range options {
		option(svc)
	}
	return svc
}

// DLB annotates the Service with service.beta.kubernetes.io/dlb-<name>: value.
func DLB(name, value string) ServiceOption {
	return Annotation("service.beta.kubernetes.io/dlb-"+name, value)
}

// Annotation annotates the Service.
func Annotation(key, value string) ServiceOption {
	return func(svc *corev1.Service) { metav1.SetMetaDataAnnotation(&svc.ObjectMeta, key, value) }
}

// Ports replaces the Service's ports.
func Ports(ports ...corev1.ServicePort) ServiceOption {
	return func(svc *corev1.Service) { svc.Spec.Ports = ports }
}

// Port returns a port with an allocated node port.
func Port(name string, protocol corev1.Protocol, port int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Protocol: protocol, Port: port, NodePort: 30000 + port%2768}
}

// Class sets the Service's loadBalancerClass.
func Class(class string) ServiceOption {
	return func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = &class }
}

// Spec changes the Service's spec.
func Spec(change func(*corev1.ServiceSpec)) ServiceOption {
	return func(svc *corev1.Service) { change(&svc.Spec) }
}
