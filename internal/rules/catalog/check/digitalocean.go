package check

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

const (
	digitalOcean = "service.beta.kubernetes.io/do-loadbalancer-"

	// digitalOceanTLSPort uses https if there is a certificate or passthrough, unless a key sets another protocol.
	digitalOceanTLSPort = "443"
)

var digitalOceanFuncs = map[string]Func{
	"digitalocean-tls": {
		Help:  "Ports with https or http2 have either a certificate or TLS passthrough.",
		Check: digitalOceanTLS,
	},
	"digitalocean-disjoint": {
		Help:  "No element is also in the list of another key.",
		Args:  []string{"key"},
		Check: disjoint,
	},
	"digitalocean-health-port": {
		Help:  "The number is that of a TCP port of the Service.",
		Check: digitalOceanHealthPort,
	},
}

func digitalOceanTLS(s Subject) string {
	_, protocolKnown := s.Other(digitalOcean + "protocol")
	passthrough, passthroughKnown := s.Other(digitalOcean + "tls-passthrough")
	if !protocolKnown || !passthroughKnown {
		return "" // Both have defaults: a value is invalid, so the result is unknown.
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
			return fmt.Sprintf("be set unless there is TLS passthrough, because port %d uses %s", port.Port, protocol)
		case certificate && passthrough.Text == "true":
			return fmt.Sprintf("not be combined with TLS passthrough, because port %d uses %s", port.Port, protocol)
		}
	}
	return ""
}

// digitalOceanProtocol returns the protocol of a port. The last list that contains the port takes precedence.
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
			return fmt.Sprintf("not share ports with %s, which also contains %s", s.With["key"], element)
		}
	}
	return ""
}

func digitalOceanHealthPort(s Subject) string {
	for i := range s.Service.Spec.Ports {
		port := &s.Service.Spec.Ports[i]
		if strconv.Itoa(int(port.Port)) == s.Value.Text && port.Protocol != corev1.ProtocolUDP {
			return ""
		}
	}
	return "be the number of a TCP port of the Service"
}
