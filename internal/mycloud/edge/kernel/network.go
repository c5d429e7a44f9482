//go:build linux

package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// The priorities of the routing rules. Marked packets are routed before the kernel finds that their address is its own.
const (
	skipPriority  = 10
	markPriority  = 11
	localPriority = 20
)

// families returns the address families that the kernel supports.
func families() []int {
	if _, err := os.Stat("/proc/sys/net/ipv6"); err != nil {
		return []int{unix.AF_INET}
	}
	return []int{unix.AF_INET, unix.AF_INET6}
}

// Routers returns the addresses of the routers to everywhere. Those to single networks may be nodes, to their pods.
func Routers() []netip.Addr {
	var routers []netip.Addr
	for _, family := range families() {
		routes, err := netlink.RouteList(nil, family)
		if err != nil {
			continue
		}
		for _, r := range routes {
			if r.Dst != nil && !r.Dst.IP.IsUnspecified() {
				continue
			}
			hops := []net.IP{r.Gw}
			for _, hop := range r.MultiPath {
				hops = append(hops, hop.Gw)
			}
			for _, hop := range hops {
				if address, ok := netip.AddrFromSlice(hop); ok {
					routers = append(routers, address.Unmap())
				}
			}
		}
	}
	return routers
}

// network changes routes, settings and conntrack of the machine.
type network struct {
	// translations are those of the last call of forget; nil before the first.
	translations map[translation]bool
}

// link names the interface and the address by which packets reach a member.
type link struct {
	index int
	name  string
	// err is why no packet must be sent to it, and remote why none can be sent unchanged; nil if there is no reason.
	err, remote error
}

// link returns how packets reach an address.
func (n *network) link(address netip.Addr) link {
	routes, err := netlink.RouteGet(address.AsSlice())
	if err != nil || len(routes) == 0 {
		return link{remote: fmt.Errorf("there is no route to %s", address)}
	}
	r := routes[0]
	switch r.Type {
	case unix.RTN_UNICAST:
	case unix.RTN_LOCAL:
		return link{err: fmt.Errorf("%s is an address of the edge itself", address)}
	default:
		return link{err: fmt.Errorf("%s is not the address of one machine", address)}
	}
	l, err := netlink.LinkByIndex(r.LinkIndex)
	if err != nil {
		return link{remote: fmt.Errorf("find interface to %s: %w", address, err)}
	}
	if r.Gw != nil || r.Via != nil {
		return link{remote: fmt.Errorf(
			"%s is behind a router; direct forwarding needs edges and nodes on one network, use NAT", address)}
	}
	return link{index: r.LinkIndex, name: l.Attrs().Name}
}

// reach returns why packets cannot be forwarded by a link, if they cannot.
func (l link) reach(nat bool) error {
	if nat {
		return l.err
	}
	return cmp.Or(l.err, l.remote)
}

// prepare makes the machine a router, if there is something to route, and remembers its settings.
func (n *network) prepare(p *plan, links map[netip.Addr]link) error {
	// Without it, the table of conntrack fills up sooner.
	(&settings{previous: p.memory.Settings}).tracked()
	s := settings{previous: p.memory.Settings}
	for _, family := range []string{cloudv1.FamilyIPv4, cloudv1.FamilyIPv6} {
		if slices.ContainsFunc(p.services, func(s *service) bool { return s.id.family == family }) {
			s.forward(family)
		}
	}
	names := map[string]bool{}
	for address, l := range links {
		if l.reach(false) == nil && address.Is4() {
			names[l.name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		s.accept(name)
	}
	return s.err
}

// addRoutes adds a routing table for each mark, and the rules that lead to them. It returns why there is none to a
// member, and an error if there may be none at all.
func (n *network) addRoutes(routes map[uint32]netip.Addr, links map[netip.Addr]link) (map[netip.Addr]error, error) {
	failed := map[netip.Addr]error{}
	for _, family := range families() {
		wanted := maps.Clone(routes)
		maps.DeleteFunc(wanted, func(_ uint32, a netip.Addr) bool { return a.Is6() != (family == unix.AF_INET6) })
		if len(wanted) == 0 {
			continue
		}
		if err := addRules(family, wanted); err != nil {
			return nil, fmt.Errorf("add routing rules: %w", err)
		}
		existing, err := markRoutes(family)
		if err != nil {
			return nil, err
		}
		for m, address := range wanted {
			l, ok := links[address]
			if !ok {
				// A member that has left.
				l = n.link(address)
			}
			if l.reach(false) != nil {
				continue
			}
			if old, ok := existing[m]; ok && old.LinkIndex == l.index && old.Gw.Equal(address.AsSlice()) {
				continue
			}
			route := &netlink.Route{Table: int(m), Gw: address.AsSlice(), LinkIndex: l.index, Protocol: unix.RTPROT_STATIC}
			if err := netlink.RouteReplace(route); err != nil {
				failed[address] = fmt.Errorf("add route to member %s: %w", address, err)
			}
		}
	}
	return failed, nil
}

// addRules adds the rules that are missing.
func addRules(family int, routes map[uint32]netip.Addr) error {
	existing, err := netlink.RuleList(family)
	if err != nil {
		return err
	}
	has := map[int]bool{}
	marked := map[uint32]bool{}
	for _, r := range existing {
		has[r.Priority] = true
		if r.Priority == markPriority {
			marked[r.Mark] = true
		}
	}
	rule := func(priority int) *netlink.Rule {
		r := netlink.NewRule()
		r.Family, r.Priority = family, priority
		return r
	}
	if !has[localPriority] {
		local := rule(localPriority)
		local.Table = unix.RT_TABLE_LOCAL
		if err := netlink.RuleAdd(local); err != nil {
			return err
		}
	}
	if !has[skipPriority] {
		// All other packets pass one rule, however many members there are.
		skip := rule(skipPriority)
		skip.Mark, skip.Mask, skip.Invert, skip.Goto = markPrefix, new(uint32(markMask)), true, localPriority
		if err := netlink.RuleAdd(skip); err != nil {
			return err
		}
	}
	for _, m := range slices.Sorted(maps.Keys(routes)) {
		if marked[m] {
			continue
		}
		r := rule(markPriority)
		r.Mark, r.Table = m, int(m)
		if err := netlink.RuleAdd(r); err != nil {
			return err
		}
	}
	if has[0] {
		first := rule(0)
		first.Table = unix.RT_TABLE_LOCAL
		return netlink.RuleDel(first)
	}
	return nil
}

// markRoutes returns the routes of marks.
func markRoutes(family int) (map[uint32]netlink.Route, error) {
	// The table 0 stands for all of them.
	routes, err := netlink.RouteListFiltered(family, &netlink.Route{}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	byMark := map[uint32]netlink.Route{}
	for _, r := range routes {
		if m := uint32(r.Table); m&markMask == markPrefix && r.Gw != nil {
			byMark[m] = r
		}
	}
	return byMark, nil
}

// removeRoutes removes the rules and routes of other marks. One that cannot be removed holds up no other.
func (n *network) removeRoutes(wanted map[uint32]netip.Addr) error {
	var failed []error
	for _, family := range families() {
		rules, err := netlink.RuleList(family)
		if err != nil {
			return errors.Join(append(failed, fmt.Errorf("list routing rules: %w", err))...)
		}
		for _, r := range rules {
			if _, ok := wanted[r.Mark]; ok || r.Priority != markPriority || r.Mark&markMask != markPrefix {
				continue
			}
			if err := netlink.RuleDel(&r); err != nil {
				failed = append(failed, fmt.Errorf("remove routing rule: %w", err))
			}
		}
		routes, err := markRoutes(family)
		if err != nil {
			return errors.Join(append(failed, err)...)
		}
		for m, r := range routes {
			if _, ok := wanted[m]; ok {
				continue
			}
			if err := netlink.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
				failed = append(failed, fmt.Errorf("remove route of mark %#x: %w", m, err))
			}
		}
	}
	return errors.Join(failed...)
}

// forget makes conntrack forget the connections of members that are gone, so that what still arrives goes to another.
func (n *network) forget(wanted map[translation]bool) error {
	gone := n.translations == nil
	for t := range n.translations {
		gone = gone || !wanted[t]
	}
	if gone {
		for _, family := range families() {
			_, err := netlink.ConntrackDeleteFilters(
				netlink.ConntrackTable, netlink.InetFamily(family), unwanted(wanted))
			if err != nil {
				return fmt.Errorf("remove connections of members that are gone: %w", err)
			}
		}
	}
	n.translations = wanted
	return nil
}

// unwanted matches connections of NAT listeners whose member is not among these.
type unwanted map[translation]bool

// MatchConntrackFlow reports whether the connection has to be forgotten.
func (u unwanted) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	address, ok := netip.AddrFromSlice(flow.Forward.DstIP)
	if !ok || flow.Mark&markMask != markPrefix {
		return false
	}
	protocol := cloudv1.ProtocolTCP
	if flow.Forward.Protocol == unix.IPPROTO_UDP {
		protocol = cloudv1.ProtocolUDP
	}
	return !u[translation{protocol, netip.AddrPortFrom(address.Unmap(), flow.Forward.DstPort), flow.Mark}]
}
