package catalog

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

const (
	digitalOcean = "service.beta.kubernetes.io/do-loadbalancer-"

	// digitalOceanTLSPort has https wherever there is a certificate or passthrough, and nothing else is said.
	digitalOceanTLSPort = "443"
)

var behavioursOfDigitalOcean = map[string]Behaviour{
	"digitalocean-tls": {
		Help:  "Ports of https and http2 have either a certificate or TLS passthrough.",
		Judge: digitalOceanTLS,
	},
	"digitalocean-disjoint": {
		Help:  "No element is in the list of another key, too.",
		Args:  []string{"key"},
		Judge: disjoint,
	},
	"digitalocean-health-port": {
		Help:  "The number is that of a TCP port of the Service, where health checks are overridden.",
		Judge: digitalOceanHealthPort,
	},
}

func digitalOceanTLS(s Subject) string {
	_, protocolKnown := s.Other(digitalOcean + "protocol")
	passthrough, passthroughKnown := s.Other(digitalOcean + "tls-passthrough")
	if !protocolKnown || !passthroughKnown {
		return "" // Both have defaults: a value is wrong, and nobody can tell.
	}
	_, byID := s.Other(digitalOcean + "certificate-id")
	_, byName := s.Other(digitalOcean + "certificate-name")
	certificate := byID || byName
	for i := range s.Service.Spec.Ports {
		port := &s.Service.Spec.Ports[i]
		protocol := digitalOceanProtocol(s, port, certificate || passthrough.Text == "true")
		switch {
		case protocol != "https" && protocol != "http2":
		case !certificate && passthrough.Text != "true":
			return fmt.Sprintf("be there, or TLS passthrough, because port %d has %s", port.Port, protocol)
		case certificate && passthrough.Text == "true":
			return fmt.Sprintf("not stand beside TLS passthrough, because port %d has %s", port.Port, protocol)
		}
	}
	return ""
}

// digitalOceanProtocol is that of a port. The last list that names it wins.
func digitalOceanProtocol(s Subject, port *corev1.ServicePort, secure bool) string {
	if port.Protocol == corev1.ProtocolUDP {
		return "udp"
	}
	number := strconv.Itoa(int(port.Port))
	names := func(key string) bool {
		ports, _ := s.Other(digitalOcean + key)
		return slices.Contains(ports.List, number)
	}
	_, tlsPorts := s.Other(digitalOcean + "tls-ports")
	protocol, _ := s.Other(digitalOcean + "protocol")
	switch {
	case names("http2-ports"):
		return "http2"
	case names("tls-ports"), secure && !tlsPorts && number == digitalOceanTLSPort:
		return "https"
	case names("http-ports"):
		return "http"
	}
	return protocol.Text
}

func disjoint(s Subject) string {
	other, _ := s.Other(s.With["key"])
	for _, element := range s.Value.List {
		if slices.Contains(other.List, element) {
			return fmt.Sprintf("share no port with %s, which has %s, too", s.With["key"], element)
		}
	}
	return ""
}

func digitalOceanHealthPort(s Subject) string {
	if _, overridden := s.Other(digitalOcean + "override-health-check"); !overridden {
		return ""
	}
	for i := range s.Service.Spec.Ports {
		port := &s.Service.Spec.Ports[i]
		if strconv.Itoa(int(port.Port)) == s.Value.Text && port.Protocol != corev1.ProtocolUDP {
			return ""
		}
	}
	return "be the number of a TCP port of the Service"
}
