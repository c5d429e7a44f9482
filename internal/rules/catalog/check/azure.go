package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/catalog/spec"
)

var azureFuncs = map[string]Func{
	"azure-probe-port": {
		Help:  "The value is the name of a port of the Service, in any case, or an integer between 0 and 65535.",
		Check: azureProbePort,
	},
	"azure-probe-time": {
		Help: "Interval times number of probes is less than 120 seconds. " +
			"Each is the port's own value, else the Service's, else the default.",
		Check: azureProbeTime,
	},
}

const highestPort = 65535

func azureProbePort(s Subject) string {
	named := slices.ContainsFunc(s.Service.Spec.Ports, func(p corev1.ServicePort) bool {
		return strings.EqualFold(p.Name, s.Raw)
	})
	if number, err := strconv.Atoi(s.Raw); named || err == nil && 0 <= number && number <= highestPort {
		return ""
	}
	return fmt.Sprintf("be the name of a port of the Service, or an integer between 0 and %d", highestPort)
}

const (
	azureKeys     = "service.beta.kubernetes.io/"
	azureInterval = azureKeys + "azure-load-balancer-health-probe-interval"
	azureProbes   = azureKeys + "azure-load-balancer-health-probe-num-of-probe"
	// azureProbeLimit is the limit that interval times number of probes must stay below, in seconds.
	azureProbeLimit = 120
)

// azureProbeTime checks the port of the key, or each port that a key without a port applies to.
// With high availability ports, the controller continues without an invalid probe.
func azureProbeTime(s Subject) string {
	if internal, _ := s.Other(azureKeys + "azure-load-balancer-internal"); internal.Text == "true" {
		if all, _ := s.Other(azureKeys + "azure-load-balancer-enable-high-availability-ports"); all.Text == "true" {
			return ""
		}
	}
	for _, p := range s.Service.Spec.Ports {
		number := strconv.Itoa(int(p.Port))
		if bound, own := s.View.Placeholder(PlacePort); own && bound != number || !azureProbed(s, p, number) {
			continue
		}
		interval, known := azureOfPort(s, number, "interval", azureInterval)
		probes, alsoKnown := azureOfPort(s, number, "num-of-probe", azureProbes)
		if known && alsoKnown && interval*probes >= azureProbeLimit {
			return fmt.Sprintf("be lower: interval times number of probes must be less than %d seconds; "+
				"port %s has %g times %g", azureProbeLimit, number, interval, probes)
		}
	}
	return ""
}

// azureProbed reports whether a port has a probe.
func azureProbed(s Subject, p corev1.ServicePort, number string) bool {
	for _, word := range []string{"_no_lb_rule", "_no_probe_rule"} {
		if off, _ := s.Other(azureKeys + "port_" + number + word); off.Text == "true" {
			return false
		}
	}
	return spec.Protocol(p) == string(corev1.ProtocolTCP)
}

// azureOfPort returns the number for a port: the port's own, else the Service's.
func azureOfPort(s Subject, port, name, general string) (value float64, known bool) {
	for _, key := range []string{azureKeys + "port_" + port + "_health-probe_" + name, general} {
		if _, set := s.Service.Annotations[key]; set || key == general {
			p, found := s.Other(key)
			return p.Number, found
		}
	}
	return 0, false
}
