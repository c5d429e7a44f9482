package check

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/spec"
)

const linode = "service.beta.kubernetes.io/linode-loadbalancer-"

var linodeFuncs = map[string]Func{
	"linode-default": {
		Help:  "The default is valid for the protocol of every port that does not override it. of is the setting.",
		Args:  []string{"of"},
		Check: linodeDefault,
	},
	"linode-protocol": {
		Help:  "The protocol of some port is one of any, which are separated by spaces.",
		Args:  []string{"any"},
		Check: linodeSomePort,
	},
	"linode-port": {
		Help:  "The settings of a port are valid for its protocol.",
		Check: linodePort,
	},
	"linode-acl": {
		Help:  "The lists have addresses or CIDRs of their families.",
		Check: linodeACL,
	},
}

// linodeSettings holds the settings in a port's key; the names are the vendor's,
// and case-insensitive as in encoding/json.
type linodeSettings struct {
	Protocol      string `json:"protocol"`
	TLSSecretName string `json:"tls-secret-name"`
	ProxyProtocol string `json:"proxy-protocol"`
	Algorithm     string `json:"algorithm"`
	Stickiness    string `json:"stickiness"`
	UDPCheckPort  string `json:"udp-check-port"`
}

func (l linodeSettings) of(setting string) string {
	return map[string]string{
		"protocol": l.Protocol, "proxy-protocol": l.ProxyProtocol, "algorithm": l.Algorithm, "stickiness": l.Stickiness,
	}[setting]
}

// linodeWords holds the values of a setting by protocol; a protocol that is missing is not checked.
var linodeWords = map[string]map[string][]string{
	"protocol": {"": {"tcp", "udp", "http", "https"}},
	"proxy-protocol": {
		"tcp": {"none", "v1", "v2"}, "http": {"none", "v1", "v2"}, "https": {"none", "v1", "v2"}, "udp": {"none"},
	},
	"algorithm": {
		"tcp": {"roundrobin", "leastconn", "source"}, "http": {"roundrobin", "leastconn", "source"},
		"https": {"roundrobin", "leastconn", "source"}, "udp": {"roundrobin", "leastconn", "ring_hash"},
	},
	"stickiness": {
		"http": {"none", "http_cookie", "table"}, "https": {"none", "http_cookie", "table"},
		"udp": {"none", "session", "source_ip"},
	},
}

// linodeRead returns the settings in a port's key. known is false if the key cannot be parsed.
func linodeRead(svc *corev1.Service, port *corev1.ServicePort) (settings linodeSettings, known bool) {
	raw, set := svc.Annotations[linodeKey(port)]
	if !set {
		return settings, true
	}
	return settings, json.Unmarshal([]byte(raw), &settings) == nil
}

func linodeKey(port *corev1.ServicePort) string {
	return linode + "port-" + strconv.Itoa(int(port.Port))
}

// linodeProtocol returns the protocol of a port: its own, else the default, else that of the spec.
func linodeProtocol(s Subject, port *corev1.ServicePort, settings linodeSettings) string {
	if settings.Protocol != "" {
		return strings.ToLower(settings.Protocol)
	}
	if p, found := s.Other(linode + "default-protocol"); found {
		return p.Text
	}
	return strings.ToLower(spec.Protocol(*port))
}

// linodeSomePort asks for a port with one of the protocols: of other ports, the controller does not read the annotation.
func linodeSomePort(s Subject) string {
	protocols := strings.Fields(s.With["any"])
	for i := range s.Service.Spec.Ports {
		port := &s.Service.Spec.Ports[i]
		settings, known := linodeRead(s.Service, port)
		if !known || slices.Contains(protocols, linodeProtocol(s, port, settings)) {
			return ""
		}
	}
	return "be combined with a port whose protocol is " + strings.Join(protocols, " or ")
}

func linodeDefault(s Subject) string {
	setting := s.With["of"]
	for i := range s.Service.Spec.Ports {
		port := &s.Service.Spec.Ports[i]
		settings, known := linodeRead(s.Service, port)
		if !known || settings.of(setting) != "" {
			continue
		}
		if setting == "protocol" {
			if s.Value.Text == "https" && settings.TLSSecretName == "" {
				return fmt.Sprintf("not be https, because %s sets no tls-secret-name", linodeKey(port))
			}
			continue
		}
		if problem := linodeWord(setting, s.Value.Text, linodeProtocol(s, port, settings)); problem != "" {
			return fmt.Sprintf("%s, which port %d uses", problem, port.Port)
		}
	}
	return ""
}

// linodeWord completes "must …" if the protocol does not allow a setting's value.
func linodeWord(setting, word, protocol string) string {
	words, checked := linodeWords[setting][protocol]
	if !checked || slices.Contains(words, strings.ToLower(word)) {
		return ""
	}
	return fmt.Sprintf("have %s %s for the protocol %s", setting, strings.Join(words, " or "), protocol)
}

func linodePort(s Subject) string {
	at := slices.IndexFunc(s.Service.Spec.Ports, func(p corev1.ServicePort) bool {
		return strconv.Itoa(int(p.Port)) == s.placeholder(PlacePort)
	})
	if at < 0 {
		return ""
	}
	port := &s.Service.Spec.Ports[at]
	settings, known := linodeRead(s.Service, port)
	if !known {
		return ""
	}
	protocols := linodeWords["protocol"][""]
	protocol := linodeProtocol(s, port, settings)
	switch {
	case settings.Protocol != "" && !slices.Contains(protocols, protocol):
		return "have the protocol " + strings.Join(protocols, " or ")
	case settings.Protocol != "" && protocol == "https" && settings.TLSSecretName == "":
		return "have a tls-secret-name for the protocol https"
	case protocol == "udp" && settings.TLSSecretName != "":
		return "not have a tls-secret-name for the protocol udp"
	case protocol == "udp" && settings.UDPCheckPort != "" && !isPort(settings.UDPCheckPort):
		return "have a udp-check-port between 1 and 65535"
	}
	for _, setting := range []string{"proxy-protocol", "algorithm", "stickiness"} {
		if word := settings.of(setting); word != "" {
			if problem := linodeWord(setting, word, protocol); problem != "" {
				return problem
			}
		}
	}
	return ""
}

func isPort(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= 1 && n <= 65535
}

// linodeAddresses is one list of a firewall, by family.
type linodeAddresses struct {
	IPv4 []string `json:"ipv4"`
	IPv6 []string `json:"ipv6"`
}

func linodeACL(s Subject) string {
	var acl struct {
		AllowList linodeAddresses `json:"allowList"`
		DenyList  linodeAddresses `json:"denyList"`
	}
	if json.Unmarshal([]byte(s.Value.Text), &acl) != nil {
		return ""
	}
	for _, list := range []linodeAddresses{acl.AllowList, acl.DenyList} {
		if problem := cmp.Or(linodeFamily(list.IPv4, corev1.IPv4Protocol), linodeFamily(list.IPv6, corev1.IPv6Protocol)); problem != "" {
			return problem
		}
	}
	return ""
}

func linodeFamily(list []string, want corev1.IPFamily) string {
	for _, one := range list {
		family, ok := familyOf(one)
		if _, err := netip.ParsePrefix(one); !ok || family != want || err != nil && strings.Contains(one, "/") {
			return fmt.Sprintf("contain only %[1]s addresses and CIDRs in its %[1]s list, not %[2]s",
				want, annotation.Quote(one))
		}
	}
	return ""
}
