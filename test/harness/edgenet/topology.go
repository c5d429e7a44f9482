//go:build linux

package edgenet

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

// The addresses of load balancers; the client's routes to them are set by Topology.RouteTo.
var (
	Pool4 = netip.MustParsePrefix("203.0.113.0/24")
	Pool6 = netip.MustParsePrefix("2001:db8:203::/64")
)

// The networks of the switches: machines have the same last part of the address in all of them.
var (
	outer4 = netip.MustParsePrefix("198.51.100.0/24")
	outer6 = netip.MustParsePrefix("2001:db8:198::/64")
	inner4 = netip.MustParsePrefix("10.55.0.0/24")
	inner6 = netip.MustParsePrefix("fd55::/64")
)

// The last parts of the addresses: the client has one, edges and nodes count from the first.
const (
	firstEdge  = 2
	firstNode  = 101
	clientHost = 100
)

// Topology is a network with a client, edges and nodes.
type Topology struct {
	Client *Machine
	Edges  []*Machine
	Nodes  []*Machine

	switches *Machine
	// clients are those that were added later.
	clients []*Machine
	// host is the process's own machine, if it has joined.
	host *Machine
}

// New builds a network with the numbers of edges and nodes, which ends with the test. The client has routes to the
// networks, but none to addresses of load balancers.
func New(tb testing.TB, edges, nodes int) *Topology {
	tb.Helper()
	t, err := Build(edges, nodes)
	tb.Cleanup(t.Close)
	if err != nil {
		tb.Fatalf("build network: %v", err)
	}
	return t
}

// Build is New for programs. The caller closes the network, even if there is an error.
func Build(edges, nodes int) (*Topology, error) {
	t := &Topology{}
	var err error
	if t.switches, err = newMachine("switches"); err != nil {
		return t, err
	}
	for _, name := range []string{Outer, Inner} {
		if err := t.addSwitch(name); err != nil {
			return t, err
		}
	}
	if t.Client, err = t.add("client", clientHost, Outer, Inner); err != nil {
		return t, err
	}
	for i := range edges {
		edge, err := t.add(fmt.Sprintf("edge%d", i+1), firstEdge+i, Outer, Inner)
		if err != nil {
			return t, err
		}
		t.Edges = append(t.Edges, edge)
	}
	for i := range nodes {
		node, err := t.add(fmt.Sprintf("node%d", i+1), firstNode+i, Inner)
		if err != nil {
			return t, err
		}
		t.Nodes = append(t.Nodes, node)
	}
	err = t.AnswerVia(t.Client)
	return t, err
}

// Close removes the network, unless processes other than this one still run on its machines.
func (t *Topology) Close() {
	for _, machine := range slices.Concat([]*Machine{t.switches, t.Client, t.host}, t.clients, t.Edges, t.Nodes) {
		if machine != nil {
			machine.Close()
		}
	}
}

func (t *Topology) addSwitch(name string) error {
	bridge := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
	bridge.Name = name
	if err := t.switches.Links.LinkAdd(bridge); err != nil {
		return fmt.Errorf("add switch %s: %w", name, err)
	}
	return t.switches.Links.LinkSetUp(bridge)
}

// add creates a machine that is connected to the switches.
func (t *Topology) add(name string, host int, switches ...string) (*Machine, error) {
	m, err := newMachine(name)
	if err != nil {
		return nil, err
	}
	m.switches = t.switches
	for _, side := range switches {
		v4, v6 := outer4, outer6
		if side == Inner {
			v4, v6 = inner4, inner6
		}
		addr4, addr6 := hostOf(v4, host), hostOf(v6, host)
		if side == Inner {
			m.Inner4, m.Inner6 = addr4, addr6
		} else {
			m.Outer4, m.Outer6 = addr4, addr6
		}
		if err := t.connect(m, side, netip.PrefixFrom(addr4, v4.Bits()), netip.PrefixFrom(addr6, v6.Bits())); err != nil {
			return nil, fmt.Errorf("connect %s to switch %s: %w", name, side, err)
		}
	}
	// Packets of one connection take different ways in and out, and none is wrong.
	for _, name := range []string{"all", "default", switches[0], switches[len(switches)-1]} {
		if err := m.Sysctl("net.ipv4.conf."+name+".rp_filter", "0"); err != nil {
			return nil, fmt.Errorf("set up %s: %w", name, err)
		}
	}
	return m, nil
}

func hostOf(network netip.Prefix, host int) netip.Addr {
	bytes := network.Addr().AsSlice()
	bytes[len(bytes)-1] = byte(host)
	addr, _ := netip.AddrFromSlice(bytes)
	return addr
}

func (t *Topology) connect(m *Machine, side string, prefixes ...netip.Prefix) error {
	bridge, err := t.switches.Links.LinkByName(side)
	if err != nil {
		return err
	}
	port := netlink.NewVeth(netlink.NewLinkAttrs())
	port.Name = m.Name + "-" + side
	port.MasterIndex = bridge.Attrs().Index
	port.PeerName = side
	port.PeerNamespace = netlink.NsFd(m.namespace)
	if err := t.switches.Links.LinkAdd(port); err != nil {
		return err
	}
	m.ports = append(m.ports, port)
	if err := t.switches.Links.LinkSetUp(port); err != nil {
		return err
	}
	link, err := m.Links.LinkByName(side)
	if err != nil {
		return err
	}
	for _, prefix := range prefixes {
		if err := m.Links.AddrAdd(link, &netlink.Addr{IPNet: IPNet(prefix)}); err != nil {
			return err
		}
	}
	return m.Links.LinkSetUp(link)
}

// RouteTo makes the client send packets for load balancers to the edges, by equal-cost routes, as a router does that has
// learnt them by BGP. Without edges, the client has no route.
func (t *Topology) RouteTo(edges ...*Machine) error {
	for _, pool := range []netip.Prefix{Pool4, Pool6} {
		route := &netlink.Route{Dst: IPNet(pool)}
		if len(edges) == 0 {
			if err := t.Client.Links.RouteDel(route); err != nil {
				return fmt.Errorf("remove route to %s: %w", pool, err)
			}
			continue
		}
		link, err := t.Client.Links.LinkByName(Outer)
		if err != nil {
			return fmt.Errorf("find interface of client: %w", err)
		}
		for _, edge := range edges {
			via := edge.Outer4
			if pool.Addr().Is6() {
				via = edge.Outer6
			}
			hop := &netlink.NexthopInfo{LinkIndex: link.Attrs().Index, Gw: via.AsSlice()}
			route.MultiPath = append(route.MultiPath, hop)
		}
		if err := t.Client.Links.RouteReplace(route); err != nil {
			return fmt.Errorf("route %s: %w", pool, err)
		}
	}
	return nil
}

// AnswerVia makes the nodes send their answers to a machine of the inner network: the client, so that they go past the
// edges, or an edge.
func (t *Topology) AnswerVia(machine *Machine) error {
	for _, node := range t.Nodes {
		for _, via := range []netip.Addr{machine.Inner4, machine.Inner6} {
			everything := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
			if via.Is6() {
				everything = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
			}
			link, err := node.Links.LinkByName(Inner)
			if err != nil {
				return fmt.Errorf("find interface of %s: %w", node.Name, err)
			}
			route := &netlink.Route{Dst: IPNet(everything), Gw: via.AsSlice(), LinkIndex: link.Attrs().Index}
			if err := node.Links.RouteReplace(route); err != nil {
				return fmt.Errorf("set default route of %s: %w", node.Name, err)
			}
		}
	}
	return nil
}

// IPNet returns the prefix in the type that netlink uses.
func IPNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
}

// AddClient adds a client, to which nodes send their answers past the edges. It has no routes to addresses of load
// balancers.
func (t *Topology) AddClient(name string) (*Machine, error) {
	client, err := t.add(name, clientHost-1-len(t.clients), Outer, Inner)
	if err != nil {
		return nil, err
	}
	t.clients = append(t.clients, client)
	for _, node := range t.Nodes {
		link, err := node.Links.LinkByName(Inner)
		if err != nil {
			return nil, fmt.Errorf("find interface of %s: %w", node.Name, err)
		}
		for address, via := range map[netip.Addr]netip.Addr{client.Outer4: client.Inner4, client.Outer6: client.Inner6} {
			route := &netlink.Route{Dst: IPNet(netip.PrefixFrom(address, address.BitLen())), Gw: via.AsSlice(), LinkIndex: link.Attrs().Index}
			if err := node.Links.RouteReplace(route); err != nil {
				return nil, fmt.Errorf("set route of %s to %s: %w", node.Name, name, err)
			}
		}
	}
	return client, nil
}
