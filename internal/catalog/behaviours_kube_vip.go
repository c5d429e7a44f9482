package catalog

import (
	"fmt"
	"net/netip"
	"slices"

	"quaymaster.dev/internal/annotation"
)

var behavioursOfKubeVIP = map[string]Behaviour{
	"kube-vip-dhcp": {
		Help:  "There are at most two addresses if one is 0.0.0.0 or ::, which ask for DHCP.",
		Judge: kubeVIPDHCP,
	},
	"kube-vip-host-names": {
		Help:  "Every element is an address; host names are for the daemon alone.",
		Judge: kubeVIPHostNames,
	},
}

func kubeVIPDHCP(s Subject) string {
	byDHCP := slices.Contains(s.Value.List, "0.0.0.0") || slices.Contains(s.Value.List, "::")
	if byDHCP && len(s.Value.List) > 2 {
		return fmt.Sprintf("have at most one address of each family for DHCP; it has %d", len(s.Value.List))
	}
	return ""
}

func kubeVIPHostNames(s Subject) string {
	for _, element := range s.Value.List {
		if _, err := netip.ParseAddr(element); err != nil {
			return fmt.Sprintf("be addresses where kube-vip-cloud-provider runs, which hands out none any more because of a host name such as %s", annotation.Quote(element))
		}
	}
	return ""
}
