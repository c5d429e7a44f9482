package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/spec"
)

// Other annotations of Alibaba Cloud that the functions read.
const (
	alibabaProtocols = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-protocol-port"
	alibabaID        = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-id"
	alibabaOverride  = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-force-override-listeners"
)

var alibabaFuncs = map[string]Func{
	"alibaba-listener": {
		Help: "At least one listener uses one of the protocols: " +
			"clb lists those of a CLB, nlb those of an NLB. By default, any protocol is accepted.",
		Optional: []string{"clb", "nlb"},
		Check:    alibabaListenerUses,
	},
	"alibaba-listener-needs": {
		Help:  "If a listener that the controller creates uses one of the protocols, the key is set.",
		Args:  []string{"protocols", "key"},
		Check: alibabaListenerNeeds,
	},
	"alibaba-listener-not": {
		Help:  "If the value is true, no listener uses one of the protocols.",
		Args:  []string{"protocols"},
		Check: alibabaListenerNot,
	},
	"alibaba-item-ports": {
		Help:  "The text after the first colon of every element is a port of the Service.",
		Check: alibabaItemPorts,
	},
	"alibaba-port-ranges": {
		Help: "Every element is first-last:port, first is less than last, " +
			"and no two listeners of one protocol overlap.",
		Check: alibabaPortRanges,
	},
}

// alibabaListener is the listener of one port of the Service.
type alibabaListener struct {
	port     int32
	protocol string
	// first and last are the ends of a port range, or both the port.
	first, last int
}

// alibabaListeners returns the listeners, or none if protocol-port is invalid.
func alibabaListeners(s Subject) []alibabaListener {
	protocols, found := s.Other(alibabaProtocols)
	if !found && s.View.Set(alibabaProtocols) {
		return nil
	}
	var all []alibabaListener
	for _, p := range s.Service.Spec.Ports {
		l := alibabaListener{
			port: p.Port, protocol: strings.ToLower(spec.Protocol(p)), first: int(p.Port), last: int(p.Port),
		}
		for _, item := range protocols.List {
			word, port := alibabaItem(item)
			if port == strconv.Itoa(int(p.Port)) {
				l.protocol = strings.ToLower(word)
				break
			}
		}
		all = append(all, l)
	}
	return all
}

// alibabaItem splits an element such as http:80 as the controller does, which ignores what follows a second colon.
func alibabaItem(item string) (prefix, port string) {
	parts := strings.Split(item, ":")
	if len(parts) < 2 {
		return item, ""
	}
	return parts[0], parts[1]
}

func alibabaListenerUses(s Subject) string {
	wanted := s.With["clb"]
	if s.Service.Spec.LoadBalancerClass != nil {
		wanted = s.With["nlb"]
	}
	listeners := alibabaListeners(s)
	if wanted == "" || len(listeners) == 0 {
		return ""
	}
	var used []string
	for _, l := range listeners {
		if slices.Contains(strings.Fields(wanted), l.protocol) {
			return ""
		}
		used = append(used, l.protocol)
	}
	return fmt.Sprintf("be combined with a listener of the protocol %s; the Service has only %s",
		strings.Join(strings.Fields(wanted), " or "), strings.Join(slices.Compact(used), ", "))
}

func alibabaListenerNeeds(s Subject) string {
	override, _ := s.Other(alibabaOverride)
	if s.View.Set(alibabaID) && override.Text != "true" {
		return "" // the controller does not manage the listeners
	}
	if s.View.Set(s.With["key"]) {
		return ""
	}
	if l, found := alibabaListenerOf(s); found {
		return fmt.Sprintf("be set, because the listener of port %d uses %s", l.port, l.protocol)
	}
	return ""
}

func alibabaListenerNot(s Subject) string {
	if l, found := alibabaListenerOf(s); found && slices.Contains(s.Value.List, "true") {
		return fmt.Sprintf("be off, because the listener of port %d uses %s", l.port, l.protocol)
	}
	return ""
}

// alibabaListenerOf returns the first listener that uses one of the function's protocols.
func alibabaListenerOf(s Subject) (l alibabaListener, found bool) {
	listeners := alibabaListeners(s)
	at := slices.IndexFunc(listeners, func(l alibabaListener) bool {
		return slices.Contains(strings.Fields(s.With["protocols"]), l.protocol)
	})
	if at < 0 {
		return alibabaListener{}, false
	}
	return listeners[at], true
}

func alibabaItemPorts(s Subject) string {
	ports := spec.Values(s.Service, "spec.ports.port")
	for _, item := range s.Value.List {
		if _, port := alibabaItem(item); !slices.Contains(ports, port) {
			return fmt.Sprintf("name only ports of the Service (%s), not %s",
				strings.Join(ports, ", "), annotation.Quote(item))
		}
	}
	return ""
}

func alibabaPortRanges(s Subject) string {
	listeners := alibabaListeners(s)
	for _, item := range s.Value.List {
		span, port := alibabaItem(item)
		left, right, _ := strings.Cut(span, "-")
		first, err1 := strconv.Atoi(left)
		last, err2 := strconv.Atoi(right)
		if err1 != nil || err2 != nil || first < 1 || last > 65535 || first >= last {
			return fmt.Sprintf("contain only ranges first-last with 1 <= first < last <= 65535, not %s",
				annotation.Quote(item))
		}
		for i := range listeners {
			if l := &listeners[i]; port == strconv.Itoa(int(l.port)) && l.first == l.last {
				l.first, l.last = first, last
			}
		}
	}
	for i, a := range listeners {
		for _, b := range listeners[i+1:] {
			if a.protocol == b.protocol && a.first <= b.last && b.first <= a.last {
				return fmt.Sprintf("have ranges that do not overlap; the ranges of ports %d and %d do", a.port, b.port)
			}
		}
	}
	return ""
}
