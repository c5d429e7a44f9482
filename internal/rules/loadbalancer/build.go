// Package loadbalancer builds the desired load balancer of a Service from its parsed annotations.
package loadbalancer

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/spec"
)

// DefaultKubeProxyHealthCheckPort is the port at which kube-proxy reports whether its node accepts traffic
// (externalTrafficPolicy Cluster), unless the cluster sets another one or replaces kube-proxy.
const DefaultKubeProxyHealthCheckPort = 10256

const healthzPath = "/healthz"

// Build builds the desired load balancer of a Service from its parsed annotations, which must not have errors.
// kubeProxyPort is the port at which nodes report whether kube-proxy, or what replaces it, accepts traffic.
func Build(v *catalog.View, kubeProxyPort int32) *Desired {
	d := &Desired{Families: families(v.Service)}
	for r := range spec.SourceRanges(v.Service) {
		d.AllowedSources = append(d.AllowedSources, r.Prefix)
	}
	for _, f := range fields().service {
		f.set(d, v.Value(f.key))
	}
	for i, p := range v.Service.Spec.Ports {
		d.Listeners = append(d.Listeners, listener(v, i, p, kubeProxyPort))
	}
	return d
}

func listener(v *catalog.View, i int, p corev1.ServicePort, kubeProxyPort int32) Listener {
	transport, _, _ := strings.Cut(spec.Listener(p), "/")
	l := Listener{
		Transport: transport, Port: p.Port, NodePort: p.NodePort, AffinityTimeout: affinityTimeout(v.Service),
		ProxyProtocol: "none",
	}
	for _, f := range fields().listener {
		value, _ := v.PortValue(f.key, i)
		f.set(&l, value)
	}
	// Kubernetes defines how nodes report their health: with traffic policy Local each node reports whether it has
	// backends of the Service. UDP cannot be probed at all, nor can a Service without node ports.
	local := v.Service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	if check := &l.HealthCheck; local || transport == "udp" || NoNodePort(v.Service, p) {
		check.Protocol, check.Path, check.ExpectedCodes = "http", healthzPath, []string{"200"}
		check.Port = kubeProxyPort
		if local {
			check.Port = v.Service.Spec.HealthCheckNodePort
		}
	}
	return l
}

// NoNodePort reports whether a port of the Service has no node port and will not get one.
func NoNodePort(svc *corev1.Service, p corev1.ServicePort) bool {
	allocate := svc.Spec.AllocateLoadBalancerNodePorts
	return p.NodePort == 0 && allocate != nil && !*allocate
}

func affinityTimeout(svc *corev1.Service) time.Duration {
	if svc.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	seconds := corev1.DefaultClientIPServiceAffinitySeconds
	if c := svc.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		seconds = *c.ClientIP.TimeoutSeconds
	}
	return time.Duration(seconds) * time.Second
}

// families returns the Service's address families; ipv4 if the API server has not set them yet.
func families(svc *corev1.Service) []string {
	var names []string
	for _, f := range svc.Spec.IPFamilies {
		names = append(names, strings.ToLower(string(f)))
	}
	if names == nil {
		return []string{"ipv4"}
	}
	return names
}

// MaxQPS returns the sum of the known limits of all listeners.
func MaxQPS(v *catalog.View) int64 {
	var sum int64
	for i := range v.Service.Spec.Ports {
		if value, known := v.PortValue(Prefix+"listener-maxqps", i); known {
			sum += int64(value.Number)
		}
	}
	return sum
}
