//go:build linux

package kernel

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
)

// healthFunc reports whether a member may get traffic.
type healthFunc func(pool config.PoolID, memberKey string) bool

// plan is what the engine has to do.
type plan struct {
	services []*service
	faults   []cloudv1.EdgeFault
	memory   *memory
	marks    marker
	// addresses are those of the edge.
	addresses []netip.Addr
	// owners are the load balancers whose listeners, of all engines, have the addresses.
	owners map[netip.Addr]ownerID
	// faulty are the members that have a fault: several listeners may use a pool.
	faulty map[memberID]bool
	// due is when the plan changes by itself, because a drain ends; zero for never.
	due time.Time
}

// planner makes plans. It does no I/O.
type planner struct {
	healthy healthFunc
	// reachable returns why packets cannot be forwarded to an address, if they cannot: by NAT, or unchanged.
	reachable func(address netip.Addr, nat bool) error
	now       time.Time
	before    *memory
}

func (r *planner) plan(c *config.Config) *plan {
	pools := make(map[config.PoolID]*config.Pool, len(c.Pools))
	for i := range c.Pools {
		pools[c.Pools[i].ID] = &c.Pools[i]
	}
	p := &plan{memory: r.before.clone(), addresses: c.Addresses, owners: ownersOf(c), faulty: map[memberID]bool{}}
	p.memory.Kept = make(map[string]map[string]time.Time, len(c.Listeners))
	p.marks.memory = p.memory
	taken := map[string]serviceID{}
	for _, l := range c.Listeners {
		if l.Engine == config.Proxy {
			continue
		}
		pool := pools[l.Pool]
		if pool == nil {
			pool = &config.Pool{ID: l.Pool}
		}
		s, err := newService(l, pool)
		if err != nil {
			p.faults = append(p.faults, serviceID{l.LoadBalancer, l.Key, l.Pool.Family}.fault("%v", err))
			continue
		}
		at := endpoint(s.protocol, s.at)
		if other, ok := taken[at]; ok {
			p.faults = append(p.faults, s.id.fault("%s port %d of %s is already served for load balancer %s",
				s.protocol, s.at.Port(), s.at.Addr(), other.loadBalancer))
			continue
		}
		taken[at] = s.id
		r.members(p, s, pool)
		p.services = append(p.services, s)
	}
	p.divideUnits()
	p.memory.forget()
	return p
}

// divideUnits gives each listener with weights its part of the units of its load balancer.
func (p *plan) divideUnits() {
	number := map[string]int{}
	for _, s := range p.services {
		if s.weighted() {
			number[s.id.loadBalancer]++
		}
	}
	for _, s := range p.services {
		if s.units = maxUnits; s.weighted() {
			s.units = min(maxUnits, sharedUnits/number[s.id.loadBalancer])
		}
	}
}

// ownersOf returns the load balancers of addresses, as far as nftables accepts their names.
func ownersOf(c *config.Config) map[netip.Addr]ownerID {
	owners := map[netip.Addr]ownerID{}
	for i := range c.Listeners {
		l := &c.Listeners[i]
		if id := idOf(l); id.valid() {
			owners[l.Address] = ownerID{id.loadBalancer, id.family}
		}
	}
	return owners
}

// memberID is a member of a pool.
type memberID struct {
	pool   config.PoolID
	member string
}

// fault adds why a member gets nothing, once.
func (p *plan) fault(s *service, pool config.PoolID, member string, err error) {
	if id := (memberID{pool, member}); !p.faulty[id] {
		p.faulty[id] = true
		p.faults = append(p.faults, s.id.fault("member %s: %v", member, err))
	}
}

// illness is how long a member that fails its probes keeps its TCP connections. A node that is about to leave may fail
// them before the cloud says that it is draining; those of a node that is dead end soon enough.
const illness = 5 * time.Second

// members decides which members get new connections, and which keep those they have: healthy and draining ones, for the
// pool's drain time those that have left, and for a short time those that fail their probes.
func (r *planner) members(p *plan, s *service, pool *config.Pool) {
	kept := map[string]time.Time{}
	// ill are the members that fail their probes.
	members, ill := map[string]bool{}, map[string]bool{}
	weighted := pool.Algorithm == cloudv1.AlgorithmWeightedRoundRobin
	for _, m := range lively(pool.Members) {
		t := target{address: m.Address}
		if s.nat {
			t.port = pool.PortOf(m)
		}
		if members[t.String()] {
			continue
		}
		if s.nat && t.port == 0 {
			p.fault(s, pool.ID, m.Key, errors.New("has no port, which only direct forwarding can do without"))
			continue
		}
		if err := r.reachable(m.Address, s.nat); err != nil {
			p.fault(s, pool.ID, m.Key, err)
			continue
		}
		members[t.String()] = true
		healthy := r.healthy(pool.ID, m.Key)
		switch {
		case m.Draining:
			// A node that is about to leave fails its probes and still has connections. Packets of UDP have none.
			if healthy || s.protocol == cloudv1.ProtocolTCP {
				kept[t.String()] = time.Time{}
			}
		case healthy:
			mark, err := p.marks.mark(s.id.loadBalancer, t)
			if err != nil {
				p.fault(s, pool.ID, m.Key, err)
				continue
			}
			kept[t.String()] = time.Time{}
			weight := 1
			if weighted {
				weight = max(1, m.Weight)
			}
			s.open = append(s.open, share{t, mark, weight})
		case s.protocol == cloudv1.ProtocolTCP:
			ill[t.String()] = true
		}
	}
	for name, until := range r.before.Kept[s.id.String()] {
		if members[name] && !ill[name] {
			continue
		}
		// The clock may have been set back since.
		end := r.now.Add(pool.Drain)
		if ill[name] {
			end = r.now.Add(min(pool.Drain, illness))
		}
		if until.IsZero() || until.After(end) {
			until = end
		}
		if !until.After(r.now) {
			continue
		}
		kept[name] = until
		if p.due.IsZero() || until.Before(p.due) {
			p.due = until
		}
	}
	slices.SortFunc(s.open, func(a, b share) int {
		return cmp.Or(a.target.address.Compare(b.target.address), cmp.Compare(a.target.port, b.target.port))
	})
	if len(kept) > 0 {
		p.memory.Kept[s.id.String()] = kept
	}
	for name := range kept {
		if number, ok := p.memory.Marks[name]; ok {
			s.kept = append(s.kept, markPrefix|number)
		}
	}
	slices.Sort(s.kept)
}

// lively returns the members, those that drain last: a new member may have the address of one that is leaving.
func lively(members []config.Member) []config.Member {
	sorted := slices.Clone(members)
	slices.SortStableFunc(sorted, func(a, b config.Member) int {
		switch {
		case a.Draining == b.Draining:
			return 0
		case b.Draining:
			return -1
		}
		return 1
	})
	return sorted
}

// routes returns where the packets of marks go.
func (p *plan) routes() map[uint32]netip.Addr {
	routes := map[uint32]netip.Addr{}
	byMark := make(map[uint32]string, len(p.memory.Marks))
	for name, number := range p.memory.Marks {
		byMark[markPrefix|number] = name
	}
	for _, s := range p.services {
		if s.nat {
			continue
		}
		for _, m := range s.kept {
			// The names of direct targets are addresses.
			if address, err := netip.ParseAddr(byMark[m]); err == nil {
				routes[m] = address
			}
		}
	}
	return routes
}

// translation is what conntrack translates for a member of a NAT listener.
type translation struct {
	protocol string
	at       netip.AddrPort
	mark     uint32
}

// translations returns those of all members whose connections go on.
func (p *plan) translations() map[translation]bool {
	all := map[translation]bool{}
	for _, s := range p.services {
		if !s.nat {
			continue
		}
		for _, m := range s.kept {
			all[translation{s.protocol, s.at, m}] = true
		}
	}
	return all
}
