package config

import (
	"fmt"
	"net/netip"
	"slices"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/state"
)

// noHosts are networks without hosts: "this network", what is reserved with the broadcast address, and IPv4-compatible
// addresses.
var noHosts = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("::/96"),
}

// machinesOf returns what the addresses of load balancers and edges belong to.
func machinesOf(s *state.State) map[netip.Addr]string {
	machines := map[netip.Addr]string{}
	for _, e := range s.Edges {
		for _, text := range e.Addresses {
			if address, err := netip.ParseAddr(text); err == nil {
				machines[address] = "edge " + e.Name
			}
		}
	}
	for _, lb := range s.LoadBalancers {
		for _, vip := range lb.VIPs {
			if address, err := netip.ParseAddr(vip.Address); err == nil {
				machines[address] = "load balancer " + lb.ID
			}
		}
	}
	return machines
}

// member returns the address of a member, or why the edge must send neither traffic nor probes to it: it would be the way
// into the edge itself, round in circles, or to what load balancers are not for.
func (c *compiler) member(text, family string) (netip.Addr, error) {
	address, err := netip.ParseAddr(text)
	if err != nil || cloudv1.FamilyOf(address) != family || address.Zone() != "" {
		return address, fmt.Errorf("%q is not an address of family %s", text, family)
	}
	contains := func(network netip.Prefix) bool { return network.Contains(address) }
	switch {
	case !address.IsGlobalUnicast() || address.Is4In6() || slices.ContainsFunc(noHosts, contains):
		return address, fmt.Errorf("address %s is not one of a host", address)
	case c.options.Reserved[address] != "":
		return address, fmt.Errorf("address %s is that of %s", address, c.options.Reserved[address])
	case c.machines[address] != "":
		return address, fmt.Errorf("address %s is that of %s", address, c.machines[address])
	case c.options.Members != nil && !slices.ContainsFunc(c.options.Members, contains):
		return address, fmt.Errorf("address %s is not in a member network of the edge", address)
	}
	return address, nil
}
