//go:build linux

package edgenet

import (
	"fmt"
	"net/netip"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// The host's interfaces and the last part of its addresses.
const (
	hostOuter, hostInner = "dlb-ext", "dlb-int"
	hostNumber           = 254
)

// JoinHost connects this process's own machine to both switches, as a second client with a route to addresses of load
// balancers by the first edge. Nodes send their answers to it. Everything ends with the network.
func (t *Topology) JoinHost(pools ...netip.Prefix) (*Machine, error) {
	namespace, err := netns.Get()
	if err != nil {
		return nil, fmt.Errorf("find own namespace: %w", err)
	}
	links, err := netlink.NewHandleAt(namespace)
	if err != nil {
		return nil, fmt.Errorf("open own netlink: %w", err)
	}
	host := &Machine{
		Name: "host", Links: links, namespace: namespace, switches: t.switches,
		Outer4: hostOf(outer4, hostNumber), Outer6: hostOf(outer6, hostNumber),
		Inner4: hostOf(inner4, hostNumber), Inner6: hostOf(inner6, hostNumber),
	}
	t.host = host
	for _, side := range []struct {
		bridge, name string
		v4, v6       netip.Prefix
	}{
		// Only the machines of the network get routes: the rest of its ranges may be in use elsewhere.
		{Outer, hostOuter, netip.PrefixFrom(host.Outer4, host.Outer4.BitLen()), netip.PrefixFrom(host.Outer6, outer6.Bits())},
		{Inner, hostInner, netip.PrefixFrom(host.Inner4, host.Inner4.BitLen()), netip.PrefixFrom(host.Inner6, inner6.Bits())},
	} {
		if err := t.joinHost(host, side.bridge, side.name, side.v4, side.v6); err != nil {
			return nil, fmt.Errorf("connect the host to switch %s: %w", side.bridge, err)
		}
	}
	if err := t.routeToMachines(host); err != nil {
		return nil, err
	}
	link, err := links.LinkByName(hostOuter)
	if err != nil {
		return nil, err
	}
	for _, pool := range pools {
		via := t.Edges[0].Outer4
		if pool.Addr().Is6() {
			via = t.Edges[0].Outer6
		}
		route := &netlink.Route{Dst: IPNet(pool), Gw: via.AsSlice(), LinkIndex: link.Attrs().Index}
		if err := links.RouteAdd(route); err != nil {
			return nil, fmt.Errorf("route %s: %w", pool, err)
		}
	}
	return host, t.AnswerVia(host)
}

// routeToMachines sets the routes of the host to the addresses of the machines.
func (t *Topology) routeToMachines(host *Machine) error {
	for _, machine := range slices.Concat(t.Edges, t.Nodes) {
		for name, address := range map[string]netip.Addr{hostOuter: machine.Outer4, hostInner: machine.Inner4} {
			if !address.IsValid() {
				continue
			}
			link, err := host.Links.LinkByName(name)
			if err != nil {
				return err
			}
			route := &netlink.Route{
				Dst: IPNet(netip.PrefixFrom(address, address.BitLen())), LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK,
			}
			if err := host.Links.RouteAdd(route); err != nil {
				return fmt.Errorf("route %s: %w", address, err)
			}
		}
	}
	return nil
}

// Routed returns a range that this process's own machine has a route to, other than a default route, and that overlaps
// one of the prefixes.
func Routed(prefixes ...netip.Prefix) (netip.Prefix, bool, error) {
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return netip.Prefix{}, false, fmt.Errorf("list the routes of this machine: %w", err)
	}
	for _, route := range routes {
		if route.Dst == nil {
			continue
		}
		to, ok := netip.AddrFromSlice(route.Dst.IP.To4())
		bits, _ := route.Dst.Mask.Size()
		// Some VPNs have two routes to half of all addresses in place of a default route.
		if at := netip.PrefixFrom(to, bits); ok && bits > 1 && slices.ContainsFunc(prefixes, at.Overlaps) {
			return at, true, nil
		}
	}
	return netip.Prefix{}, false, nil
}

// Networks returns the ranges of the switches that a joined host must not have other routes to.
func Networks() []netip.Prefix { return []netip.Prefix{outer4, inner4} }

func (t *Topology) joinHost(host *Machine, bridge, name string, prefixes ...netip.Prefix) error {
	master, err := t.switches.Links.LinkByName(bridge)
	if err != nil {
		return err
	}
	port := netlink.NewVeth(netlink.NewLinkAttrs())
	port.Name, port.MasterIndex = "host-"+bridge, master.Attrs().Index
	port.PeerName, port.PeerNamespace = name, netlink.NsFd(host.namespace)
	if err := t.switches.Links.LinkAdd(port); err != nil {
		return err
	}
	if err := t.switches.Links.LinkSetUp(port); err != nil {
		return err
	}
	link, err := host.Links.LinkByName(name)
	if err != nil {
		return err
	}
	for _, prefix := range prefixes {
		addr := &netlink.Addr{IPNet: IPNet(prefix), Flags: unix.IFA_F_NODAD}
		// A host without IPv6 is connected by IPv4 alone.
		if err := host.Links.AddrAdd(link, addr); err != nil && prefix.Addr().Is4() {
			return err
		}
	}
	// Answers come by another interface than requests leave by.
	if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+name+"/rp_filter", []byte("2"), 0); err != nil {
		return err
	}
	return host.Links.LinkSetUp(link)
}
