package config

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/state"
)

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

// memberList are members, and why others are not among them.
type memberList struct {
	list    []Member
	refused []error
}

// groupFamily is a node group, of which members have addresses of a family.
type groupFamily struct{ group, family string }

// ownMembers returns the members of a pool without a node group.
func (c *compiler) ownMembers(p *cloudv1.Pool) *memberList {
	members := &memberList{}
	for _, m := range p.Members {
		c.add(members, m.Key, m.Address, p.Family, m.Port, m.Weight, m.State)
	}
	return members.sorted()
}

// groupMembers returns the members of a node group with an address of the family; nil if there is no such group.
func (c *compiler) groupMembers(id, family string) *memberList {
	at := groupFamily{id, family}
	if known := c.groups[at]; known != nil {
		return known
	}
	group := c.state.NodeGroups[id]
	if group == nil {
		return nil
	}
	members := &memberList{}
	for _, m := range group.Members {
		for _, a := range m.Addresses {
			if a.Family == family {
				c.add(members, m.Key, a.Address, family, 0, m.Weight, m.State)
				break
			}
		}
	}
	c.groups[at] = members.sorted()
	return members
}

func (l *memberList) sorted() *memberList {
	slices.SortFunc(l.list, func(a, b Member) int { return cmp.Compare(a.Key, b.Key) })
	return l
}

// add adds a member, or why it cannot be had.
func (c *compiler) add(to *memberList, key, address, family string, port int32, weight int, state string) {
	a, err := c.member(address, family)
	if err == nil && (port < 0 || port > math.MaxUint16) {
		err = fmt.Errorf("port %d is not between 1 and 65535", port)
	}
	if err != nil {
		to.refused = append(to.refused, fmt.Errorf("member %q: %w", key, err))
		return
	}
	to.list = append(to.list, Member{
		Key: key, Address: a, Port: uint16(port), Weight: weight,
		// A weight of 0 takes no new connections either.
		Draining: state == cloudv1.MemberDraining || weight == 0,
	})
}

// member returns the address of a member, or why the edge must send neither traffic nor probes to it: it would be the way
// into the edge itself, round in circles, or to what load balancers are not for.
func (c *compiler) member(text, family string) (netip.Addr, error) {
	address, err := netip.ParseAddr(text)
	if err != nil || cloudv1.FamilyOf(address) != family || address.Zone() != "" {
		return address, fmt.Errorf("%q is not an address of family %s", text, family)
	}
	contains := func(network netip.Prefix) bool { return network.Contains(address) }
	isAPI, alone := slices.Contains(c.options.API, address), netip.PrefixFrom(address, address.BitLen())
	switch {
	case !cloudv1.IsHost(address):
		return address, fmt.Errorf("address %s is not one of a host", address)
	case c.options.Reserved[address] != "":
		return address, fmt.Errorf("address %s is that of %s", address, c.options.Reserved[address])
	case c.machines[address] != "":
		return address, fmt.Errorf("address %s is that of %s", address, c.machines[address])
	case isAPI && !slices.Contains(c.options.Members, alone):
		return address, fmt.Errorf("address %s is that of the API; if that runs on a node, name %s in --member-network of the edge",
			address, alone)
	case len(c.networks) > 0 && !isAPI && !slices.ContainsFunc(c.networks, contains):
		return address, fmt.Errorf("address %s is not in a member network of the edge", address)
	}
	return address, nil
}
