package loadbalancer

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// port is a port of the Service that becomes a listener.
type port struct {
	index              int // in spec.ports
	name, transport    string
	port, nodePort     int32
	appProtocol        string
	sctp, localTraffic bool
	// governors are the settings that hold here, by key name; undecided are the keys that both forms set.
	governors map[string]*setting
	undecided map[string]bool
}

func (p *port) govern(by *setting, index int) {
	p.governors[by.Name] = by
	by.governs = append(by.governs, index)
}

// listenersOf are the ports of the Service in their order. Those of SCTP are among them, for annotations to name, but
// cannot be served.
func listenersOf(svc *corev1.Service) []port {
	ports := make([]port, len(svc.Spec.Ports))
	for i, p := range svc.Spec.Ports {
		transport := strings.ToLower(string(p.Protocol))
		if transport == "" {
			transport = "tcp"
		}
		ports[i] = port{
			index: i, name: p.Name, transport: transport, port: p.Port, nodePort: p.NodePort,
			sctp: p.Protocol == corev1.ProtocolSCTP, localTraffic: local(svc),
			governors: map[string]*setting{}, undecided: map[string]bool{},
		}
		if p.AppProtocol != nil {
			ports[i].appProtocol = *p.AppProtocol
		}
	}
	return ports
}

func local(svc *corev1.Service) bool {
	return svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

func (p port) key() string { return listenerKey(p.transport, p.port) }

func (p port) number() string { return strconv.Itoa(int(p.port)) }

// suffix is that of a key's form for the port: its name, if it has one that is not taken for a number, because a number may mean
// two ports.
func (p port) suffix() string {
	if strings.ContainsFunc(p.name, notDigit) {
		return p.name
	}
	return p.number()
}

func notDigit(r rune) bool { return r < '0' || r > '9' }

func (p port) defaultProtocol() string {
	switch {
	case p.transport != "tcp":
		return p.transport
	case p.appProtocol == "http":
		return "http"
	}
	return "tcp"
}

// fits tells whether a listener of the protocol can serve the port.
func (p port) fits(protocol string) bool { return (protocol == "udp") == (p.transport == "udp") }

// fixedCheck tells whether the health check is given by how Kubernetes announces healthy nodes: with traffic policy
// Local each node answers for its own backends; udp cannot be probed at all.
func (p port) fixedCheck() bool { return p.localTraffic || p.transport == "udp" }
