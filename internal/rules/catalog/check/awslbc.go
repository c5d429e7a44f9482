package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/spec"
)

const awsPrefix = "service.beta.kubernetes.io/aws-load-balancer-"

var awsLBCFuncs = map[string]Func{
	"aws-lbc-listener": {
		Help:  "The key contains the effective protocol of the listener of its port.",
		Check: awsListener,
	},
	"aws-lbc-tls": {
		Help:  "Some port has a TLS listener.",
		Check: awsTLS,
	},
	"aws-lbc-health-port": {
		Help:  "The value is traffic-port, a number, or the name of a port; for pods, its target port is a number.",
		Check: awsHealthPort,
	},
	"aws-target-groups": {
		Help:  "In a forward action, each target group with a serviceName has a servicePort, and each of several has a weight.",
		Check: awsTargetGroups,
	},
	"alb-https": {
		Help:  "listen-ports, if it is set, has HTTPS: on the port that the value is, else on any.",
		Check: albHTTPS,
	},
	"aws-lbc-quic": {
		Help:  "Every listed port uses UDP.",
		Check: awsQUIC,
	},
	"aws-lbc-source-ranges": {
		Help:  "An IPv4-only load balancer has no IPv6 source range.",
		Check: awsSourceRanges,
	},
	"aws-lbc-node-ports": {
		Help:  "Every port has a node port.",
		Check: awsNodePorts,
	},
	"aws-lbc-tcp-udp": {
		Help:  "Ports with the same number are one TCP port and one UDP port.",
		Check: awsTCPUDP,
	},
}

// awsListener checks the protocol in the key against those that the listener may effectively have:
// whether ports share a listener may depend on a feature gate.
func awsListener(s Subject) string {
	var allowed []string
	shared := map[corev1.Protocol]bool{}
	for _, p := range s.Service.Spec.Ports {
		if strconv.Itoa(int(p.Port)) != s.placeholder(PlacePort) {
			continue
		}
		shared[corev1.Protocol(spec.Protocol(p))] = true
		switch {
		case spec.Protocol(p) == string(corev1.ProtocolUDP) && s.lists("quic-enabled-ports", p):
			allowed = append(allowed, "QUIC")
		case spec.Protocol(p) == string(corev1.ProtocolTCP) && s.hasTLS(p):
			allowed = append(allowed, "TLS")
		default:
			allowed = append(allowed, spec.Protocol(p))
		}
	}
	if shared[corev1.ProtocolTCP] && shared[corev1.ProtocolUDP] {
		switch merged, set := s.Other(awsPrefix + "enable-tcp-udp-listener"); {
		case !set:
			allowed = append(allowed, "TCP_UDP", "TCP_QUIC")
		case merged.Text == "true":
			allowed = []string{"TCP_UDP", "TCP_QUIC"}
		}
	}
	if len(allowed) == 0 || slices.Contains(allowed, s.placeholder(PlaceAny)) {
		return ""
	}
	return "use the protocol of the listener in the key, which is " + strings.Join(allowed, " or ")
}

// lists reports whether a list of ports contains p, by number or name.
func (s Subject) lists(suffix string, p corev1.ServicePort) bool {
	ports, found := s.Other(awsPrefix + suffix)
	byNumber := slices.Contains(ports.List, strconv.Itoa(int(p.Port)))
	return found && (byNumber || p.Name != "" && slices.Contains(ports.List, p.Name))
}

func (s Subject) hasTLS(p corev1.ServicePort) bool {
	// The controller takes any text for an ARN.
	raw, certificate := s.View.Written(awsPrefix + "ssl-cert")
	certificate = certificate && strings.TrimFunc(raw, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) != ""
	ports, limited := s.Other(awsPrefix + "ssl-ports")
	return certificate && (!limited || len(ports.List) == 0 || s.lists("ssl-ports", p))
}

func awsTLS(s Subject) string {
	if slices.ContainsFunc(s.Service.Spec.Ports, func(p corev1.ServicePort) bool {
		return spec.Protocol(p) != string(corev1.ProtocolUDP) && s.hasTLS(p)
	}) {
		return ""
	}
	return "be combined with a TLS listener: a port that is not UDP, and an ARN in ssl-cert"
}

func awsHealthPort(s Subject) string {
	const lowest, highest = 1, 65535
	text := s.Value.Text
	if text == "traffic-port" {
		return ""
	}
	if n, err := strconv.Atoi(text); err == nil {
		if n < lowest || n > highest {
			return fmt.Sprintf("be a port between %d and %d", lowest, highest)
		}
		return ""
	}
	at := slices.IndexFunc(s.Service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == text })
	if at < 0 {
		return "be traffic-port, a port number, or the name of a port of the Service"
	}
	kind, _ := s.Other(awsPrefix + "type")
	targets, _ := s.Other(awsPrefix + "nlb-target-type")
	if s.Service.Spec.Ports[at].TargetPort.Type == intstr.String && (kind.Text == "nlb-ip" || targets.Text == "ip") {
		return "not name a port with a named targetPort, because the targets are pods"
	}
	return ""
}

func awsQUIC(s Subject) string {
	for _, p := range s.Service.Spec.Ports {
		number := strconv.Itoa(int(p.Port))
		if !slices.Contains(s.Value.List, number) && (p.Name == "" || !slices.Contains(s.Value.List, p.Name)) {
			continue
		}
		withUDP := func(other corev1.ServicePort) bool {
			return other.Port == p.Port && other.Protocol == corev1.ProtocolUDP
		}
		if !slices.ContainsFunc(s.Service.Spec.Ports, withUDP) {
			return fmt.Sprintf("name only ports that use UDP; port %s uses %s", number, spec.Protocol(p))
		}
	}
	return ""
}

func awsSourceRanges(s Subject) string {
	_, own := s.Other(awsPrefix + "security-groups")
	none, _ := s.Other(awsPrefix + "disable-nlb-sg")
	families, known := s.Other(awsPrefix + "ip-address-type")
	if own || none.Text == "true" || !known || families.Text == "dualstack" {
		return ""
	}
	ranges := s.Service.Spec.LoadBalancerSourceRanges
	annotated, found := s.Other("service.beta.kubernetes.io/load-balancer-source-ranges")
	if len(ranges) == 0 && found {
		ranges = annotated.List
	}
	for _, source := range ranges {
		if strings.Contains(source, ":") {
			return "be dualstack because of the IPv6 source range " + annotation.Quote(source)
		}
	}
	return ""
}

func awsNodePorts(s Subject) string {
	for _, p := range s.Service.Spec.Ports {
		if p.NodePort == 0 {
			return fmt.Sprintf("be ip because spec.allocateLoadBalancerNodePorts is false and port %d has no nodePort",
				p.Port)
		}
	}
	return ""
}

func awsTCPUDP(s Subject) string {
	protocols := map[int32][]string{}
	for _, p := range s.Service.Spec.Ports {
		protocols[p.Port] = append(protocols[p.Port], spec.Protocol(p))
	}
	for _, p := range s.Service.Spec.Ports {
		shared := slices.Sorted(slices.Values(protocols[p.Port]))
		if len(shared) > 1 && !slices.Equal(shared, []string{string(corev1.ProtocolTCP), string(corev1.ProtocolUDP)}) {
			return fmt.Sprintf("be one TCP and one UDP for port %d, not %s", p.Port, strings.Join(shared, ", "))
		}
	}
	return ""
}

// forward holds the fields of a forward action that depend on each other.
type forward struct {
	Config struct {
		TargetGroups []struct {
			ServiceName *string             `json:"serviceName"`
			ServicePort *intstr.IntOrString `json:"servicePort"`
			Weight      *int32              `json:"weight"`
		} `json:"targetGroups"`
	} `json:"forwardConfig"`
}

func awsTargetGroups(s Subject) string {
	var action forward
	if err := json.Unmarshal([]byte(s.Value.Text), &action); err != nil {
		return "have a number or a name as servicePort: " + err.Error()
	}
	groups := action.Config.TargetGroups
	for i, group := range groups {
		switch {
		case group.ServiceName != nil && group.ServicePort == nil:
			return fmt.Sprintf("have a servicePort with the serviceName in targetGroups[%d]", i)
		case group.Weight == nil && len(groups) > 1:
			return fmt.Sprintf("have a weight in targetGroups[%d]", i)
		}
	}
	return ""
}

func albHTTPS(s Subject) string {
	const key = "alb.ingress.kubernetes.io/listen-ports"
	raw, set := s.View.Written(key)
	var listeners []map[string]int
	if !set || json.Unmarshal([]byte(raw), &listeners) != nil {
		return ""
	}
	wanted, err := strconv.Atoi(s.Value.Text)
	if err == nil && s.View.Set("alb.ingress.kubernetes.io/group.name") {
		return "" // another Ingress of the group may have the listener
	}
	for _, one := range listeners {
		if port, found := one["HTTPS"]; found && (err != nil || port == wanted) {
			return ""
		}
	}
	if err != nil {
		return "be combined with HTTPS in " + key
	}
	return fmt.Sprintf("be combined with HTTPS on port %d in %s", wanted, key)
}
