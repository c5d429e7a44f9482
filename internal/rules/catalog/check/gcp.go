package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/spec"
)

var gcpFuncs = map[string]Func{
	"gcp-affinity-timeout": {
		Help:  "The timeout of session affinity is in the range of strong session affinity.",
		Check: gcpAffinityTimeout,
	},
	"gcp-two-addresses": {
		Help:  "There are at most two names.",
		Check: gcpTwoAddresses,
	},
	"gcp-neg": {
		Help:  "The JSON exposes ports of the Service, and names no group if Ingresses use them, too.",
		Check: gcpNEG,
	},
	"gcp-port-names": {
		Help:  "The keys of the JSON are names of ports of the Service.",
		Check: func(s Subject) string { return aboutPorts(s, "spec.ports.name") },
	},
}

func gcpAffinityTimeout(s Subject) string {
	const least, most = 60, 16 * 60 * 60
	config := s.Service.Spec.SessionAffinityConfig
	if config == nil || config.ClientIP == nil || config.ClientIP.TimeoutSeconds == nil {
		return "" // the API server sets a valid timeout
	}
	if seconds := *config.ClientIP.TimeoutSeconds; seconds < least || seconds > most {
		return fmt.Sprintf("be combined with a session affinity timeoutSeconds between %d and %d, not %d",
			least, most, seconds)
	}
	return ""
}

func gcpTwoAddresses(s Subject) string {
	const most = 2
	if len(s.Value.List) <= most {
		return ""
	}
	return fmt.Sprintf("contain at most %d addresses; %s and any later ones are ignored",
		most, annotation.Quote(s.Value.List[most]))
}

func gcpNEG(s Subject) string {
	var groups struct {
		Ingress bool `json:"ingress"`
		Ports   map[int32]struct {
			Name string `json:"name"`
		} `json:"exposed_ports"`
	}
	if json.Unmarshal([]byte(s.Value.Text), &groups) != nil {
		return ""
	}
	ports := spec.Values(s.Service, "spec.ports.port")
	for _, port := range slices.Sorted(maps.Keys(groups.Ports)) {
		switch {
		case !slices.Contains(ports, fmt.Sprint(port)):
			return fmt.Sprintf("expose only ports of the Service (%s), not %d", strings.Join(ports, ", "), port)
		case groups.Ingress && groups.Ports[port].Name != "":
			return fmt.Sprintf("not name the group of port %d if ingress is true", port)
		}
	}
	return ""
}
