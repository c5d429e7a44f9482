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
		Help:  "The JSON describes network endpoint groups for ports of the Service.",
		Check: gcpNEG,
	},
	"gcp-app-protocols": {
		Help:  "The JSON has a protocol for each name.",
		Check: gcpAppProtocols,
	},
	"gcp-backend-config": {
		Help:  "The JSON names at least one BackendConfig.",
		Check: gcpBackendConfig,
	},
	"gcp-transparent-health-checker": {
		Help: "The JSON contains enabled, which is true or false.",
		Check: func(s Subject) string {
			var checker struct {
				Enabled bool `json:"enabled"`
			}
			return s.decode(&checker, "enabled, which is true or false")
		},
	},
}

// decode parses JSON as the controller does, which ignores unknown fields.
func (s Subject) decode(into any, content string) string {
	if err := json.Unmarshal([]byte(s.Value.Text), into); err != nil {
		return "be JSON with " + content
	}
	return ""
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
		Zones []string `json:"zones"`
	}
	if problem := s.decode(&groups, "ingress, exposed_ports by number, and zones"); problem != "" {
		return problem
	}
	ports := spec.Values(s.Service, "spec.ports.port")
	for _, port := range slices.Sorted(maps.Keys(groups.Ports)) {
		if !slices.Contains(ports, fmt.Sprint(port)) {
			return fmt.Sprintf("expose only ports of the Service (%s), not %d", strings.Join(ports, ", "), port)
		}
	}
	return ""
}

func gcpAppProtocols(s Subject) string {
	protocols := []string{"HTTP", "HTTPS", "HTTP2"}
	var byPort map[string]string
	if problem := s.decode(&byPort, "a protocol by name of a port"); problem != "" {
		return problem
	}
	for _, port := range slices.Sorted(maps.Keys(byPort)) {
		if !slices.Contains(protocols, byPort[port]) {
			return fmt.Sprintf("have one of %s for each port; %s has %s",
				strings.Join(protocols, ", "), port, annotation.Quote(byPort[port]))
		}
	}
	return ""
}

func gcpBackendConfig(s Subject) string {
	var names struct {
		Default string            `json:"default"`
		Ports   map[string]string `json:"ports"`
	}
	problem := s.decode(&names, "default and ports, which name BackendConfigs")
	if problem == "" && names.Default == "" && len(names.Ports) == 0 {
		return "name at least one BackendConfig, as default or in ports"
	}
	return problem
}
