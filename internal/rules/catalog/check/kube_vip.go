package check

import (
	"fmt"
	"net/netip"
	"slices"

	"quaymaster.dev/internal/rules/annotation"
)

var kubeVIPFuncs = map[string]Func{
	"kube-vip-dhcp": {
		Help:  "There are at most two addresses if one is 0.0.0.0 or ::, which request an address by DHCP.",
		Check: kubeVIPDHCP,
	},
	"kube-vip-host-names": {
		Help:  "Every element is an address; only the daemon accepts host names.",
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
	for _, element := range s.Value.List {
		if _, err := netip.ParseAddr(element); err != nil {
			return fmt.Sprintf("contain only addresses if kube-vip-cloud-provider runs: "+
				"host name %s makes it stop assigning addresses", annotation.Quote(element))
		}
	}
	return ""
}
