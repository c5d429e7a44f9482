// Package plan says what HAProxy has to do for the listeners and pools of an edge, and writes it as HAProxy's configuration.
// It does no I/O: the engine finds out what HAProxy can do, and tells the plan what it refuses.
package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/internal/visible"
)

const (
	// defaultIdle is the idle timeout of listeners that have none.
	defaultIdle = time.Minute
	// connectTimeout limits connecting to a member.
	connectTimeout = 3 * time.Second
	// maxCertificates keeps the line of a listener within the number of words that HAProxy accepts.
	maxCertificates = 25
	// sourcesPerLine does the same for the source ranges.
	sourcesPerLine = 32
	// longest is the longest time that HAProxy can measure, roughly.
	longest = 480 * time.Hour
	// maxConnections is the highest limit that can be compared with.
	maxConnections = 1 << 30
)

// The modes of frontends and backends. A pool has a backend for each kind of listener that uses it.
const (
	modeTCP = "tcp"
	// ModeHTTP is that of listeners whose requests HAProxy reads.
	ModeHTTP = "http"
)

// Plan is what HAProxy has to do, in the terms of its configuration.
type Plan struct {
	// Units are those that the rest is for, and backendOf has the names of their backends, by key.
	Units     []Unit
	backendOf map[string]string
	// Frontends and Backends are sorted by their names.
	Frontends []Frontend
	Backends  []Backend
	// Faults say which units are not as they are wanted, and why.
	Faults []cloudv1.EdgeFault
}

// Frontend is a listener.
type Frontend struct {
	Listener config.Listener
	// Removed is true if the listener is not wanted any more, so that HAProxy must not accept connections.
	Removed bool

	Name, Mode, Backend string
	Bind                netip.AddrPort
	// Certificates are files.
	Certificates   []string
	MaxConnections int
	Quota          quota
	Idle           time.Duration
	// Allowed are source ranges, line by line.
	Allowed [][]string
}

// Backend is a pool as listeners of one kind use it.
type Backend struct {
	// Unit is one of those that use the backend.
	Unit Unit
	Pool config.Pool

	Name, Mode string
	// Hash distributes by the client's address, Least by the number of connections.
	Hash, Least   bool
	Connect, Idle time.Duration
	Monitor       *monitor
	Servers       []Server
	// Options are those that all servers have. A change of them needs a reload.
	Options string
}

// monitor is a health check with everything that HAProxy wants to know.
type monitor struct {
	HTTP, TLS                   bool
	Port                        uint16
	Path, Codes                 string
	Interval, Transition, Limit time.Duration
	Rise, Fall                  int
}

// Server is a member.
type Server struct {
	Member config.Member

	Name    string
	Address netip.AddrPort
	ID      uint32
	Weight  int
	Options string
}

// Unit is what can fail without the rest: a listener, or a pool that is only checked.
type Unit struct {
	// Listener is nil for a pool that is only checked.
	Listener *config.Listener
	Pool     *config.Pool
	// Removed is true for a unit that is not wanted any more, and stays in the configuration until the next reload.
	Removed bool
}

// LoadBalancer returns the id of the load balancer that the unit belongs to.
func (u Unit) LoadBalancer() string { return u.Pool.ID.LoadBalancer }

// Key identifies the unit: by the name of its frontend or, for a pool, the prefix of the names of its backends.
func (u Unit) Key() string {
	if u.Listener != nil {
		return frontendName(u.Listener)
	}
	return backendName(u.Pool.ID, "")
}

// Fault returns that the unit is not as it is wanted because of an error. It is pending if the error is a WaitingError.
func (u Unit) Fault(err error) cloudv1.EdgeFault {
	f := cloudv1.EdgeFault{LoadBalancerID: u.Pool.ID.LoadBalancer}
	detail := fmt.Sprintf("pool %q of family %s: %v", u.Pool.ID.Key, u.Pool.ID.Family, err)
	if u.Listener != nil {
		f.LoadBalancerID, f.ListenerKey = u.Listener.LoadBalancer, u.Listener.Key
		detail = fmt.Sprintf("listener on %s: %v", netip.AddrPortFrom(u.Listener.Address, u.Listener.Port), err)
	}
	f.Detail = visible.Cut(detail, 1024)
	f.Pending = isWaiting(err)
	return f
}

// Units returns the listeners of a configuration that HAProxy serves, and the pools that it only checks.
func Units(c *config.Config) []Unit {
	// The engine keeps the units, whatever becomes of the configuration.
	c = &config.Config{Listeners: slices.Clone(c.Listeners), Pools: slices.Clone(c.Pools)}
	pace(c.Pools)
	pools := map[config.PoolID]*config.Pool{}
	for i := range c.Pools {
		pools[c.Pools[i].ID] = &c.Pools[i]
	}
	var units []Unit
	served := map[config.PoolID]bool{}
	for i := range c.Listeners {
		l := &c.Listeners[i]
		if l.Engine != config.Proxy {
			continue
		}
		pool := pools[l.Pool]
		if pool == nil {
			pool = &config.Pool{ID: l.Pool}
		}
		served[l.Pool] = true
		units = append(units, Unit{Listener: l, Pool: pool})
	}
	for i := range c.Pools {
		if p := &c.Pools[i]; !served[p.ID] && p.Monitor != nil {
			units = append(units, Unit{Pool: p})
		}
	}
	return units
}

// before returns the unit as it was when HAProxy accepted it, with what its pool has now. If no other unit uses that pool,
// it has what the unit wants.
func (u Unit) before(accepted Unit, pools map[config.PoolID]*config.Pool) Unit {
	pool, now := *accepted.Pool, pools[accepted.Pool.ID]
	if now == nil {
		now = u.Pool
	}
	pool.Members, pool.Port = now.Members, now.Port
	return Unit{Listener: accepted.Listener, Pool: &pool}
}

// exceeds reports whether the unit needs more than a backend of that size has.
func (u Unit) exceeds(size Size) bool {
	return len(u.Pool.Members) > size.Members || u.Pool.Monitor != nil && !size.Checked
}

// within returns the unit with no more than a backend of that size has: as many members, at first those that run, and checks
// only if there are any.
func (u Unit) within(size Size) Unit {
	pool := *u.Pool
	pool.Members = slices.Clone(pool.Members)
	slices.SortStableFunc(pool.Members, func(a, b config.Member) int {
		return cmp.Compare(size.rank(u, a), size.rank(u, b))
	})
	pool.Members = pool.Members[:min(size.Members, len(pool.Members))]
	if !size.Checked && u.Listener != nil {
		pool.Monitor = nil
	}
	return Unit{Listener: u.Listener, Pool: &pool}
}

// AsRemoved returns the unit as one that is not wanted any more, without members.
func (u Unit) AsRemoved() Unit {
	pool := *u.Pool
	pool.Members = nil
	return Unit{u.Listener, &pool, true}
}

// NeedsReload reports whether HAProxy has to reload to change a unit into this one: it does not for members and limits.
func (u Unit) NeedsReload(was Unit) bool {
	pool, before := *u.Pool, *was.Pool
	pool.Members, pool.Port, pool.Drain = nil, 0, 0
	before.Members, before.Port, before.Drain = nil, 0, 0
	if u.Listener == nil || was.Listener == nil {
		return u.Listener != was.Listener || !reflect.DeepEqual(pool, before)
	}
	l := *u.Listener
	if (l.MaxConnections > 0) == (was.Listener.MaxConnections > 0) {
		l.MaxConnections = was.Listener.MaxConnections
	}
	if quotaOf(l.MaxQPS).Seconds == quotaOf(was.Listener.MaxQPS).Seconds {
		l.MaxQPS = was.Listener.MaxQPS
	}
	return !reflect.DeepEqual(l, *was.Listener) || !reflect.DeepEqual(pool, before)
}

// Running is what HAProxy runs.
type Running struct {
	// Units are those that it has accepted, by key; nil if they are not known, because the agent or HAProxy has just started.
	Units map[string]Unit
	// Backends has the size of each backend by name, also of the HAProxy before.
	Backends map[string]Size
}

// Changed returns how many servers join or leave the backend of a unit. It is the answer while Units is nil: weights are not
// known then.
func (r *Running) Changed(u Unit) int {
	has, stay := r.Backends[u.Backend()], 0
	for _, m := range u.Pool.Members {
		stay += 1 - has.rank(u, m)
	}
	return len(u.Pool.Members) + len(has.Servers) - 2*stay
}

// Size is how much of the shares of load balancers a backend has.
type Size struct {
	Members int
	// Checked is true if they are probed.
	Checked bool
	// Servers has their names.
	Servers map[string]bool
}

// rank is lower for a member that runs.
func (s *Size) rank(u Unit, m config.Member) int {
	if s.Servers[serverName(m.Key, addressOf(u, m))] {
		return 0
	}
	return 1
}

// checks is how many checks a backend has.
func (s *Size) checks() int {
	if s.Checked {
		return s.Members
	}
	return 0
}

// Backend returns the name of the backend that a unit needs; empty if it cannot have one.
func (u Unit) Backend() string {
	kind, _, err := kindOf(u.Listener)
	if err != nil {
		return ""
	}
	return backendName(u.Pool.ID, kind)
}

// Sizes returns the sizes of the plan's backends by name.
func (p *Plan) Sizes() map[string]Size {
	sizes := make(map[string]Size, len(p.Backends))
	for i := range p.Backends {
		b := &p.Backends[i]
		size := Size{len(b.Pool.Members), b.Monitor != nil, make(map[string]bool, len(b.Servers))}
		for j := range b.Servers {
			size.Servers[b.Servers[j].Name] = true
		}
		sizes[b.Name] = size
	}
	return sizes
}

// Of returns what HAProxy has to do for the units. A unit that it cannot do, or that is refused, becomes a fault, and stays as
// it was accepted before, if it was. Certificates returns the files of certificates; files is how many files HAProxy may
// open, which limits the checks. Of sorts the units.
func Of(
	units []Unit, certificates func(ids []string) (files []string, err error), running Running, refused Refusals, files int,
) *Plan {
	accepted := running.Units
	p := &planner{
		Plan: Plan{backendOf: map[string]string{}}, certificates: certificates, running: running,
		checks: checkShares(files, units), servers: serverShares(commonServers), probed: serverShares(commonProbed),
		hashing: map[string]int{}, backends: map[string]int{}, charged: map[string]Size{}, binds: map[netip.AddrPort]bool{}, faulty: map[string]bool{},
	}
	pools, wanted := map[config.PoolID]*config.Pool{}, map[string]bool{}
	for _, u := range units {
		if !u.Removed {
			pools[u.Pool.ID] = u.Pool
			wanted[u.Backend()] = true
		}
		// What waits for a reload, or is to go, changes nothing for the others.
		_, runs := accepted[u.Key()]
		if u.Listener != nil && u.Pool.Algorithm == cloudv1.AlgorithmSourceIP && !u.Removed && (runs || refused[u.Key()] == nil) {
			p.hashing[u.LoadBalancer()]++
		}
	}
	// Those that are there keep what they have: they come before those that grow, and what was removed comes last.
	rank := func(u Unit) int {
		switch {
		case u.Removed:
			return 2
		case len(u.Pool.Members) > running.Backends[u.Backend()].Members:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(units, func(a, b Unit) int { return rank(a) - rank(b) })
	for _, u := range units {
		if u.Removed {
			continue
		}
		p.charge(u, len(u.Pool.Members))
		if old, ok := accepted[u.Key()]; ok && !wanted[old.Backend()] {
			p.charge(old, len(old.Pool.Members))
		}
	}
	for _, u := range units {
		forms := []Unit{u}
		if old, ok := accepted[u.Key()]; ok {
			forms = append(forms, u.before(old, pools), old)
			if !wanted[old.Backend()] {
				// It may have this for what it wants instead.
				p.release(old)
			}
		} else if size := running.Backends[u.Backend()]; accepted == nil && refused[u.Key()] == nil && size.Members > 0 && u.exceeds(size) {
			forms = append(forms, u.within(size))
		}
		var reason error
		if r := refused[u.Key()]; r != nil {
			reason, forms = r.reason, forms[min(r.times, len(forms)):]
		}
		for _, form := range forms {
			err := p.add(form)
			if err == nil {
				break
			}
			if reason == nil {
				reason = err
			}
		}
		if reason != nil && !u.Removed {
			p.Faults = append(p.Faults, u.Fault(reason))
		}
	}
	// The order must not depend on which units are removed.
	slices.SortFunc(p.Frontends, func(a, b Frontend) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(p.Backends, func(a, b Backend) int { return cmp.Compare(a.Name, b.Name) })
	return &p.Plan
}

type planner struct {
	Plan
	certificates func(ids []string) ([]string, error)
	running      Running
	// checks and servers are what load balancers may still have, probed are servers of no listener.
	checks, servers, probed *shares
	// hashing is how many listeners of load balancers have pools that hash.
	hashing  map[string]int
	backends map[string]int
	// charged has what load balancers have got of their shares for backends that run, before any of them gets more.
	charged map[string]Size
	binds   map[netip.AddrPort]bool
	// faulty has the members that are faults already, because several listeners use their pool.
	faulty map[string]bool
}

// charge gives a load balancer what it has for the backend of a unit, up to a number of members.
func (p *planner) charge(u Unit, members int) {
	name := u.Backend()
	size := p.running.Backends[name]
	if _, ok := p.charged[name]; ok || size.Members == 0 {
		return
	}
	size.Members = min(size.Members, members)
	p.charged[name] = size
	p.serversOf(u).take(u.LoadBalancer(), size.Members)
	p.checks.take(u.LoadBalancer(), size.checks())
}

// release takes back what a load balancer has for the backend of a unit, unless the plan has that backend.
func (p *planner) release(u Unit) {
	name := u.Backend()
	size, ok := p.charged[name]
	if _, used := p.backends[name]; used || !ok {
		return
	}
	delete(p.charged, name)
	p.serversOf(u).take(u.LoadBalancer(), -size.Members)
	p.checks.take(u.LoadBalancer(), -size.checks())
}

func (p *planner) add(u Unit) error {
	// Members are not looked at, which takes time, unless there may be so many.
	if _, _, err := kindOf(u.Listener); err != nil {
		return err
	}
	name, checks, servers := u.Backend(), 0, 0
	if _, ok := p.backends[name]; !ok {
		charged := p.charged[name]
		servers = max(len(u.Pool.Members)-charged.Members, 0)
		if u.Pool.Monitor != nil {
			checks = max(len(u.Pool.Members)-charged.checks(), 0)
		}
	}
	if err := p.fits(u, servers, checks); err != nil {
		return err
	}
	b, faulty, err := backendOf(u, mostUnits/max(p.hashing[u.LoadBalancer()], 1))
	if err != nil {
		return err
	}
	if u.Listener != nil {
		f, err := frontendOf(u.Listener, p.certificates)
		if err == nil && p.binds[f.Bind] {
			err = fmt.Errorf("a second listener has this address and port")
		}
		if err != nil {
			return err
		}
		p.binds[f.Bind] = true
		f.Backend, f.Removed, b.Idle = b.Name, u.Removed, f.Idle
		p.Frontends = append(p.Frontends, *f)
	}
	p.checks.take(u.LoadBalancer(), checks)
	p.serversOf(u).take(u.LoadBalancer(), servers)
	p.Units = append(p.Units, u)
	p.backendOf[u.Key()] = b.Name
	for _, err := range faulty {
		if key := fmt.Sprintf("%v %v", u.Pool.ID, err); !p.faulty[key] {
			p.faulty[key] = true
			p.Faults = append(p.Faults, u.Fault(err))
		}
	}
	if at, ok := p.backends[b.Name]; ok {
		p.Backends[at].Idle = max(p.Backends[at].Idle, b.Idle)
		return nil
	}
	p.backends[b.Name] = len(p.Backends)
	p.Backends = append(p.Backends, *b)
	return nil
}

func frontendOf(l *config.Listener, certificates func(ids []string) ([]string, error)) (*Frontend, error) {
	f := &Frontend{
		Listener: *l, Name: frontendName(l), Mode: modeOf(l), Bind: netip.AddrPortFrom(l.Address.Unmap(), l.Port),
		MaxConnections: min(max(l.MaxConnections, 0), maxConnections), Quota: quotaOf(l.MaxQPS),
		Idle: cmp.Or(limited(l.IdleTimeout), defaultIdle),
	}
	if !l.Address.IsValid() || l.Address.Zone() != "" || l.Port == 0 {
		return nil, fmt.Errorf("not an address and port")
	}
	if l.Protocol == cloudv1.ProtocolHTTPS {
		if len(l.Certificates) == 0 || len(l.Certificates) > maxCertificates {
			return nil, fmt.Errorf("has %d certificates, must have 1 to %d", len(l.Certificates), maxCertificates)
		}
		var err error
		if f.Certificates, err = certificates(l.Certificates); err != nil {
			return nil, err
		}
	}
	for chunk := range slices.Chunk(l.Allowed, sourcesPerLine) {
		line := make([]string, 0, len(chunk))
		for _, prefix := range chunk {
			if !prefix.IsValid() {
				return nil, fmt.Errorf("a source range is not valid")
			}
			line = append(line, prefix.String())
		}
		f.Allowed = append(f.Allowed, line)
	}
	return f, nil
}

func modeOf(l *config.Listener) string {
	if l != nil && (l.Protocol == cloudv1.ProtocolHTTP || l.Protocol == cloudv1.ProtocolHTTPS) {
		return ModeHTTP
	}
	return modeTCP
}

// limited returns a time that HAProxy can measure; 0 means that there is none.
func limited(d time.Duration) time.Duration { return min(max(d, 0), longest) }
