package config

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/state"
)

// Options says what kind of edge it is.
type Options struct {
	// Name is the edge's name, Zone its zone; empty for none.
	Name, Zone string
	// NAT is true if the edge is not on one link with the nodes, so that it cannot forward packets unchanged.
	NAT bool
	// Shared is true if all active edges carry traffic at the same time, so that each gets a part of the limits.
	Shared bool
	// Pools are the networks that load balancers have addresses of; nil allows all.
	Pools []netip.Prefix
	// Reserved has what addresses belong to that neither load balancers nor members must have, such as those of the
	// machine itself.
	Reserved map[netip.Addr]string
	// Members are the networks that members have addresses of; nil allows all.
	Members []netip.Prefix
	// API are addresses of the cloud's API. No load balancer has one of them, and no member unless it is one of Members by
	// itself, because the API runs on a node. Members with nothing else allow all.
	API []netip.Addr
}

// noSources is a source range that no client is in.
var noSources = map[string]netip.Prefix{
	cloudv1.FamilyIPv4: netip.PrefixFrom(netip.IPv4Unspecified(), 32),
	cloudv1.FamilyIPv6: netip.PrefixFrom(netip.IPv6Unspecified(), 128),
}

// Compile returns what the edge has to do, and what it cannot do. A faulty listener stays as it was before, if it was
// there, and concerns no other one. Before is nil if the edge did nothing.
func Compile(s *state.State, before *Config, o Options) (*Config, []cloudv1.EdgeFault) {
	c := &compiler{state: s, before: cmp.Or(before, &Config{}), options: o, config: &Config{}, groups: map[groupFamily]*memberList{}}
	c.networks = slices.DeleteFunc(slices.Clone(o.Members), func(p netip.Prefix) bool {
		return p.IsSingleIP() && slices.Contains(o.API, p.Addr())
	})
	c.owners = c.ownersOfAddresses()
	c.machines = machinesOf(s)
	for _, id := range slices.Sorted(maps.Keys(s.LoadBalancers)) {
		if lb := s.LoadBalancers[id]; c.carries(lb) {
			c.loadBalancer(lb)
		}
	}
	c.config.sort()
	return c.config, c.faults
}

func (c *Config) sort() {
	slices.SortFunc(c.Addresses, netip.Addr.Compare)
	slices.SortFunc(c.Listeners, func(a, b Listener) int {
		return cmp.Or(cmp.Compare(a.LoadBalancer, b.LoadBalancer), a.Address.Compare(b.Address), cmp.Compare(a.Key, b.Key))
	})
	slices.SortFunc(c.Pools, func(a, b Pool) int { return a.ID.compare(b.ID) })
}

// sharing returns the number of edges that share the traffic of a load balancer, of which this is one.
func (c *compiler) sharing(lb *cloudv1.LoadBalancer) int {
	n := 1
	if !c.options.Shared {
		return n
	}
	for _, e := range c.state.Edges {
		if e.Name != c.options.Name && e.State == cloudv1.EdgeActive && !e.Draining && lb.ServedFrom(e.Zone) {
			n++
		}
	}
	return n
}

// Leaving reports whether the edge of that name is asked to drain.
func Leaving(s *state.State, name string) bool {
	for _, e := range s.Edges {
		if e.Name == name {
			return e.Draining
		}
	}
	return false
}

type compiler struct {
	state   *state.State
	before  *Config
	options Options
	// pools are those of the load balancer at hand.
	pools  map[PoolID]*compiledPool
	owners map[netip.Addr]*cloudv1.LoadBalancer
	// groups are the members of node groups, which many pools have.
	groups map[groupFamily]*memberList
	// machines has what addresses belong to that members must not have: load balancers and edges.
	machines map[netip.Addr]string
	// networks are those that members must have an address of, unless it is one of the API; empty for all.
	networks []netip.Prefix
	config   *Config
	faults   []cloudv1.EdgeFault
}

// carries reports whether the edge serves a load balancer.
func (c *compiler) carries(lb *cloudv1.LoadBalancer) bool {
	if lb.ProvisioningState == cloudv1.ProvisioningPendingDelete {
		return false
	}
	return lb.ServedFrom(c.options.Zone)
}

func (c *compiler) fault(lb *cloudv1.LoadBalancer, listener, format string, args ...any) {
	c.faults = append(c.faults, cloudv1.EdgeFault{
		LoadBalancerID: lb.ID, ListenerKey: listener, Detail: fmt.Sprintf(format, args...),
	})
}

// ownersOfAddresses returns the load balancer that each address belongs to: the one that was there first, so that a cloud
// that gives an address away twice takes no traffic from a load balancer that has it.
func (c *compiler) ownersOfAddresses() map[netip.Addr]*cloudv1.LoadBalancer {
	owners := map[netip.Addr]*cloudv1.LoadBalancer{}
	for _, lb := range c.state.LoadBalancers {
		if !c.carries(lb) {
			continue
		}
		for _, vip := range lb.VIPs {
			// What is not an address is found later.
			address, _ := netip.ParseAddr(vip.Address)
			if other := owners[address]; other == nil ||
				cmp.Or(lb.CreatedAt.Compare(other.CreatedAt), cmp.Compare(lb.ID, other.ID)) < 0 {
				owners[address] = lb
			}
		}
	}
	return owners
}

// address returns the address of a load balancer, or why the edge must not answer for it.
func (c *compiler) address(lb *cloudv1.LoadBalancer, vip cloudv1.VIP) (netip.Addr, error) {
	address, err := netip.ParseAddr(vip.Address)
	if err != nil || address.Zone() != "" || cloudv1.FamilyOf(address) != vip.Family {
		return address, fmt.Errorf("address %q is not an IP address of family %s", vip.Address, vip.Family)
	}
	within := func(pool netip.Prefix) bool { return pool.Contains(address) }
	switch owner := c.owners[address]; {
	case !address.IsGlobalUnicast() || address.Is4In6():
		return address, fmt.Errorf("address %s is not one of a host", address)
	case c.options.Pools != nil && !slices.ContainsFunc(c.options.Pools, within):
		return address, fmt.Errorf("address %s is not in an address pool of the edge", address)
	case c.options.Reserved[address] != "":
		return address, fmt.Errorf("address %s is that of %s", address, c.options.Reserved[address])
	case slices.Contains(c.options.API, address):
		return address, fmt.Errorf("address %s is that of the API", address)
	case owner != lb:
		return address, fmt.Errorf("address %s belongs to load balancer %s", address, owner.ID)
	}
	return address, nil
}

func (c *compiler) loadBalancer(lb *cloudv1.LoadBalancer) {
	listeners := slices.Clone(lb.Listeners)
	slices.SortFunc(listeners, func(a, b cloudv1.Listener) int { return cmp.Compare(a.Key, b.Key) })
	vips := slices.Clone(lb.VIPs)
	slices.SortFunc(vips, func(a, b cloudv1.VIP) int { return cmp.Compare(a.Family, b.Family) })
	var kept []*Listener
	done := map[PoolID]bool{}
	c.pools = map[PoolID]*compiledPool{}
	for v, vip := range vips {
		if v > 0 && vip.Family == vips[v-1].Family {
			c.fault(lb, "", "there is more than one address of family %s", vip.Family)
			continue
		}
		address, err := c.address(lb, vip)
		if err != nil {
			c.fault(lb, "", "%v", err)
			continue
		}
		c.config.Addresses = append(c.config.Addresses, address)
		bound := map[string]bool{}
		for i := range listeners {
			key, port := listeners[i].Key, fmt.Sprintf("%d/%s", listeners[i].Port, transport(listeners[i].Protocol))
			if bound[port] || i > 0 && key == listeners[i-1].Key {
				c.fault(lb, key, "a second listener has the same key, or port %s", port)
				continue
			}
			bound[port] = true
			l, p := c.listener(lb, &listeners[i], vip, address)
			if l == nil {
				kept = append(kept, c.present(lb.ID, key, address))
				continue
			}
			c.config.Listeners = append(c.config.Listeners, *l)
			if !done[l.Pool] {
				done[l.Pool] = true
				c.config.Pools = append(c.config.Pools, *p)
			}
		}
	}
	c.keep(kept)
}

// transport returns the protocol below a listener's.
func transport(protocol string) string {
	if protocol == cloudv1.ProtocolUDP {
		return protocol
	}
	return cloudv1.ProtocolTCP
}

// engine returns what carries the traffic of a listener.
func (c *compiler) engine(l *cloudv1.Listener, vip cloudv1.VIP) Engine {
	switch {
	case l.NeedsProxy(), vip.Mode == cloudv1.VIPModeProxy && l.Protocol == cloudv1.ProtocolTCP:
		return Proxy
	case vip.Mode == cloudv1.VIPModeProxy, c.options.NAT:
		// Nodes do not answer for the address of a load balancer in mode proxy.
		return NAT
	}
	return Direct
}

func (c *compiler) listener(
	lb *cloudv1.LoadBalancer, l *cloudv1.Listener, vip cloudv1.VIP, address netip.Addr,
) (*Listener, *Pool) {
	if l.Port < 1 || l.Port > math.MaxUint16 {
		c.fault(lb, l.Key, "port %d is not between 1 and 65535", l.Port)
		return nil, nil
	}
	at := slices.IndexFunc(lb.Pools, func(p cloudv1.Pool) bool { return p.Key == l.PoolKey && p.Family == vip.Family })
	if at < 0 {
		c.fault(lb, l.Key, "there is no pool %q of family %s", l.PoolKey, vip.Family)
		return nil, nil
	}
	engine := c.engine(l, vip)
	if lb.Pools[at].TargetPort == 0 && len(lb.Pools[at].Members) == 0 && engine != Direct {
		c.fault(lb, l.Key, "pool %q has no target port, which only edges that forward directly can do without", l.PoolKey)
		return nil, nil
	}
	pool, err := c.poolOnce(lb, l.Key, &lb.Pools[at])
	if err != nil {
		c.fault(lb, l.Key, "pool %q: %v", l.PoolKey, err)
		return nil, nil
	}
	allowed, err := sources(l.AllowedCIDRs, vip.Family)
	if err != nil {
		c.fault(lb, l.Key, "allowed_cidrs: %v", err)
		return nil, nil
	}
	edges := float64(c.sharing(lb))
	compiled := &Listener{
		LoadBalancer: lb.ID, Key: l.Key, Address: address, Port: uint16(l.Port), Protocol: l.Protocol, Engine: engine,
		Pool: pool.ID, MaxQPS: float64(l.MaxQPS) / edges,
		MaxConnections: int(math.Ceil(float64(l.MaxConnections) / edges)),
		IdleTimeout:    time.Duration(l.IdleTimeoutMS) * time.Millisecond, Allowed: allowed,
	}
	if l.ProxyProtocol != cloudv1.ProxyProtocolNone {
		compiled.ProxyProtocol = l.ProxyProtocol
	}
	if l.TLS != nil {
		compiled.Certificates = slices.Clone(l.TLS.CertificateIDs)
	}
	return compiled, pool
}

// sources returns the source ranges of a family. If there are only ranges of the other family, no client is allowed.
func sources(cidrs []string, family string) ([]netip.Prefix, error) {
	var allowed []netip.Prefix
	for _, cidr := range cidrs {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			return nil, err
		}
		if cloudv1.FamilyOf(prefix.Addr()) == family {
			allowed = append(allowed, prefix)
		}
	}
	if len(cidrs) > 0 && allowed == nil {
		return []netip.Prefix{noSources[family]}, nil
	}
	slices.SortFunc(allowed, netip.Prefix.Compare)
	return slices.Compact(allowed), nil
}

// compiledPool is a pool of the load balancer at hand, or why it cannot be had.
type compiledPool struct {
	pool *Pool
	err  error
}

// poolOnce returns a pool, whose members may have faults, which are reported for the first listener that uses it.
func (c *compiler) poolOnce(lb *cloudv1.LoadBalancer, listener string, p *cloudv1.Pool) (*Pool, error) {
	id := PoolID{lb.ID, p.Key, p.Family}
	if c.pools[id] == nil {
		pool, err := c.pool(lb, listener, p)
		c.pools[id] = &compiledPool{pool, err}
	}
	return c.pools[id].pool, c.pools[id].err
}

func (c *compiler) pool(lb *cloudv1.LoadBalancer, listener string, p *cloudv1.Pool) (*Pool, error) {
	if p.TargetPort < 0 || p.TargetPort > math.MaxUint16 {
		return nil, fmt.Errorf("target port %d is not between 1 and 65535", p.TargetPort)
	}
	pool := &Pool{
		ID: PoolID{lb.ID, p.Key, p.Family}, Protocol: p.Protocol, Algorithm: p.Algorithm,
		Drain: time.Duration(p.DrainTimeoutS) * time.Second,
	}
	if p.SessionAffinity != nil {
		// Edges remember no clients: those that share the traffic, and know different clients, would go on to disagree.
		pool.Algorithm = cloudv1.AlgorithmSourceIP
	}
	if m := p.HealthMonitor; m != nil && m.Type != cloudv1.ProtocolNone {
		if m.Port < 0 || m.Port > math.MaxUint16 {
			return nil, fmt.Errorf("port %d of the health monitor is not between 1 and 65535", m.Port)
		}
		pool.Monitor = &Monitor{
			Type: m.Type, Port: uint16(cmp.Or(m.Port, p.TargetPort)), Path: m.Path, ExpectedCodes: m.ExpectedCodes,
			Interval: time.Duration(m.IntervalMS) * time.Millisecond, Timeout: time.Duration(m.TimeoutMS) * time.Millisecond,
			Rise: m.Rise, Fall: m.Fall,
		}
	}
	var members *memberList
	if p.NodeGroupID == "" {
		members = c.ownMembers(p)
	} else {
		pool.Port = uint16(p.TargetPort)
		if members = c.groupMembers(p.NodeGroupID, p.Family); members == nil {
			return nil, fmt.Errorf("there is no node group %s", p.NodeGroupID)
		}
	}
	for _, err := range members.refused {
		c.fault(lb, listener, "pool %q: %v", p.Key, err)
	}
	pool.Members = members.list
	return pool, nil
}
