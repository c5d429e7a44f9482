package check

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"quaymaster.dev/internal/rules/annotation"
)

var kubeVIPFuncs = map[string]Func{
	"kube-vip-dhcp": {
		Help:  "There are at most two addresses if one is 0.0.0.0 or ::, which request an address by DHCP.",
		Check: kubeVIPDHCP,
	},
	"kube-vip-host-names": {
		Help:  "Every element is an address; only the daemon accepts host names, and spaces around elements.",
		Check: kubeVIPHostNames,
	},
}

func kubeVIPDHCP(s Subject) string {
	byDHCP := slices.Contains(s.Value.List, "0.0.0.0") || slices.Contains(s.Value.List, "::")
	if byDHCP && len(s.Value.List) > 2 {
		return fmt.Sprintf("contain at most one address per family for DHCP, but contains %d", len(s.Value.List))
	}
	return ""
}

func kubeVIPHostNames(s Subject) string {
	for element := range strings.SplitSeq(s.Raw, ",") {
		if _, err := netip.ParseAddr(element); err == nil {
			continue
		}
		what := "host name"
		if _, err := netip.ParseAddr(strings.TrimSpace(element)); err == nil {
			what = "the space in"
		}
		return fmt.Sprintf("contain only addresses if kube-vip-cloud-provider runs: "+
			"%s %s makes it stop assigning addresses", what, annotation.Quote(element))
	}
	return ""
}
