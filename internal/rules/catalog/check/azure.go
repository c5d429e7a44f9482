package check

import (
	"fmt"
	"net"
	"net/netip"
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
			"Each is the port's own value, else the Service's, else the default. of is interval or num-of-probe.",
		Args:  []string{"of"},
		Check: azureProbeTime,
	},
	"azure-probed": {
		Help: "The port in the key has a probe. With spec.externalTrafficPolicy: Local, the key in override must be set, " +
			"too: otherwise, the health check node port is probed instead.",
		Optional: []string{"override"},
		Check:    azureProbed,
	},
	"azure-public-address": {
		Help:  "The address of a public load balancer is not a private one, nor reserved by Azure.",
		Check: func(s Subject) string { return azurePublic(s, s.Value.Text) },
	},
	"azure-pip-names": {
		Help:  "The public addresses of a dual-stack Service have different names.",
		Check: azurePIPNames,
	},
	"azure-load-balancer-ip": {
		Help: "spec.loadBalancerIP is an address, and a public one if the load balancer is public, " +
			"unless an annotation takes precedence or the Service lacks the family.",
		Check: azureLoadBalancerIP,
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
	azureInternal = azureKeys + "azure-load-balancer-internal"
	azureInterval = azureKeys + "azure-load-balancer-health-probe-interval"
	azureProbes   = azureKeys + "azure-load-balancer-health-probe-num-of-probe"
	// azureProbeLimit is the limit that interval times number of probes must stay below, in seconds.
	azureProbeLimit = 120
	// azureLeastInterval and azureLeastProbes are the lowest values that the controller accepts.
	azureLeastInterval, azureLeastProbes = 5, 2
)

// azureTrue reports whether the controller reads a boolean as true.
func azureTrue(s Subject, key string) bool {
	return strings.EqualFold(s.Service.Annotations[azureKeys+key], "true")
}

// azureProbeTime checks the port of the key, or each port that a key without a port applies to.
// With high availability ports, the controller continues without an invalid probe, unless it is that of the nodes.
func azureProbeTime(s Subject) string {
	nodes := azureProbesNodes(s)
	number, ofPort := s.View.Placeholder(PlacePort)
	if nodes && !ofPort {
		if problem := azureTooLong(s, "the health check node port", azureInterval, azureProbes); problem != "" {
			return problem
		}
	}
	internal, _ := s.Other(azureInternal)
	if internal.Text == "true" && azureTrue(s, "azure-load-balancer-enable-high-availability-ports") {
		return ""
	}
	for _, p := range s.Service.Spec.Ports {
		port := strconv.Itoa(int(p.Port))
		if ofPort && port != number || !azureHasProbe(s, p) || nodes && !azureOverrides(s, port, "port") ||
			!ofPort && azureOverrides(s, port, s.With["of"]) {
			continue
		}
		interval, probes := azureOfPort(s, port, "interval", azureInterval), azureOfPort(s, port, "num-of-probe", azureProbes)
		if problem := azureTooLong(s, "port "+port, interval, probes); problem != "" {
			return problem
		}
	}
	return ""
}

// azureTooLong reports two values whose product is too large. If one of them is too large with any other, only that one is
// at fault.
func azureTooLong(s Subject, what, intervalKey, probesKey string) string {
	interval, known := s.Other(intervalKey)
	probes, alsoKnown := s.Other(probesKey)
	if !known || !alsoKnown || interval.Number*probes.Number < azureProbeLimit {
		return ""
	}
	own, other := interval.Number*azureLeastProbes, probes.Number*azureLeastInterval
	if s.With["of"] != "interval" {
		own, other = other, own
	}
	if own < azureProbeLimit && other >= azureProbeLimit {
		return ""
	}
	return fmt.Sprintf("be lower: interval times number of probes must be less than %d seconds; %s has %.0f times %.0f",
		azureProbeLimit, what, interval.Number, probes.Number)
}

// azureProbed checks the port of the key.
func azureProbed(s Subject) string {
	number := s.placeholder(PlacePort)
	probed := slices.ContainsFunc(s.Service.Spec.Ports, func(p corev1.ServicePort) bool {
		return strconv.Itoa(int(p.Port)) == number && azureHasProbe(s, p)
	})
	override := s.View.Expand(s.With["override"])
	switch {
	case !probed:
		return "be for a TCP port with a rule and a probe"
	case override != "" && azureProbesNodes(s) && !azureOverrides(s, number, "port"):
		return "be combined with " + override + ", because with spec.externalTrafficPolicy: Local, " +
			"the health check node port is probed"
	}
	return ""
}

func azurePIPNames(s Subject) string {
	other, _ := s.Other(azureKeys + "azure-pip-name")
	if len(s.Service.Spec.IPFamilies) == 2 && strings.EqualFold(s.Value.Text, other.Text) {
		return "differ from azure-pip-name, because a public address is either IPv4 or IPv6"
	}
	return ""
}

// azureProbesNodes reports whether the health check node port is probed instead of ports without their own probe port.
func azureProbesNodes(s Subject) bool {
	return s.Service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal &&
		!(azureTrue(s, "azure-pls-create") && azureTrue(s, "azure-pls-proxy-protocol"))
}

// azureOverrides reports whether a port has its own value of a setting.
func azureOverrides(s Subject, port, name string) bool {
	_, set := s.Service.Annotations[azureOwn(port, name)]
	return set
}

func azureOwn(port, name string) string { return azureKeys + "port_" + port + "_health-probe_" + name }

// azureOfPort returns the key whose value a port has: the port's own, else the Service's.
func azureOfPort(s Subject, port, name, general string) string {
	if azureOverrides(s, port, name) {
		return azureOwn(port, name)
	}
	return general
}

// azureHasProbe reports whether a port may have a probe.
func azureHasProbe(s Subject, p corev1.ServicePort) bool {
	prefix := "port_" + strconv.Itoa(int(p.Port))
	off := azureTrue(s, prefix+"_no_lb_rule") || azureTrue(s, prefix+"_no_probe_rule")
	return !off && spec.Protocol(p) == string(corev1.ProtocolTCP)
}

// azureReserved are addresses that Azure uses itself.
var azureReserved = []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("168.63.129.16/32")}

// azurePublic checks an address of a load balancer that is public.
func azurePublic(s Subject, text string) string {
	address, err := netip.ParseAddr(text)
	if internal, known := s.Other(azureInternal); err != nil || !known || internal.Text == "true" {
		return ""
	}
	address = address.Unmap()
	reserved := slices.ContainsFunc(azureReserved, func(p netip.Prefix) bool { return p.Contains(address) })
	if address.IsGlobalUnicast() && !address.IsPrivate() && !reserved {
		return ""
	}
	return "be a public address, unless " + azureInternal + " is true"
}

// azureLoadBalancerIP checks spec.loadBalancerIP. A text that is not an address counts as one of IPv6.
func azureLoadBalancerIP(s Subject) string {
	text := s.Service.Spec.LoadBalancerIP
	address, families := net.ParseIP(text), s.Service.Spec.IPFamilies
	if text == "" || address == nil && len(families) == 0 {
		return ""
	}
	family := corev1.IPv6Protocol
	if address.To4() != nil {
		family = corev1.IPv4Protocol
	}
	switch {
	case len(families) > 0 && !slices.Contains(families, family) || azureAddressed(s, family):
		return ""
	case address == nil:
		return "be an IP address"
	}
	return azurePublic(s, text)
}

// azureAddressed reports whether an annotation takes precedence over spec.loadBalancerIP for a family.
func azureAddressed(s Subject, family corev1.IPFamily) bool {
	suffixes := []string{""}
	if family == corev1.IPv6Protocol {
		suffixes[0] = "-ipv6"
		if len(s.Service.Spec.IPFamilies) == 1 {
			suffixes = append(suffixes, "")
		}
	}
	keys := []string{"azure-load-balancer-" + strings.ToLower(string(family))}
	if internal, _ := s.Other(azureInternal); internal.Text != "true" {
		for _, suffix := range suffixes {
			keys = append(keys, "azure-pip-name"+suffix, "azure-pip-prefix-id"+suffix)
		}
	}
	return slices.ContainsFunc(keys, func(key string) bool { return s.Service.Annotations[azureKeys+key] != "" })
}
