package haproxy

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
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

// The kinds of backends. A pool has one for each kind of listener that uses it.
const (
	kindTCP  = "tcp"
	kindHTTP = "http"
)

// plan is what HAProxy has to do, in the terms of its configuration.
type plan struct {
	// units are those that the rest is for, and backendOf has the names of their backends, by key.
	units     []unit
	backendOf map[string]string
	frontends []frontend
	backends  []backend
	faults    []cloudv1.EdgeFault
}

type frontend struct {
	listener config.Listener
	// removed is true if the listener is not wanted any more, so that HAProxy must not accept connections.
	removed bool

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

type backend struct {
	// unit is one of those that use the backend.
	unit unit
	pool config.Pool

	Name, Mode string
	// Hash distributes by the client's address, Least by the number of connections.
	Hash, Least   bool
	Connect, Idle time.Duration
	Monitor       *monitor
	Servers       []server
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

// server is a member.
type server struct {
	member config.Member

	Name    string
	Address netip.AddrPort
	ID      uint32
	Weight  int
	Options string
}

// unit is what can fail without the rest: a listener, or a pool that is only checked.
type unit struct {
	listener *config.Listener
	pool     *config.Pool
	// removed is true for a unit that is not wanted any more, and stays in the configuration until the next reload.
	removed bool
}

// loadBalancer returns the id of the load balancer that the unit belongs to.
func (u unit) loadBalancer() string { return u.pool.ID.LoadBalancer }

// key identifies the unit.
func (u unit) key() string {
	if u.listener != nil {
		return frontendName(u.listener)
	}
	return backendName(u.pool.ID, "")
}

func (u unit) fault(err error) cloudv1.EdgeFault {
	f := cloudv1.EdgeFault{LoadBalancerID: u.pool.ID.LoadBalancer}
	detail := fmt.Sprintf("pool %q of family %s: %v", u.pool.ID.Key, u.pool.ID.Family, err)
	if u.listener != nil {
		f.LoadBalancerID, f.ListenerKey = u.listener.LoadBalancer, u.listener.Key
		detail = fmt.Sprintf("listener on %s: %v", netip.AddrPortFrom(u.listener.Address, u.listener.Port), err)
	}
	f.Detail = detail[:min(len(detail), 1024)]
	f.Pending = isWaiting(err)
	return f
}

// unitsOf returns the listeners of a configuration that HAProxy serves, and the pools that it only checks.
func unitsOf(c *config.Config) []unit {
	// The engine keeps the units, whatever becomes of the configuration.
	c = &config.Config{Listeners: slices.Clone(c.Listeners), Pools: slices.Clone(c.Pools)}
	pools := map[config.PoolID]*config.Pool{}
	for i := range c.Pools {
		pools[c.Pools[i].ID] = &c.Pools[i]
	}
	var units []unit
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
		units = append(units, unit{listener: l, pool: pool})
	}
	for i := range c.Pools {
		if p := &c.Pools[i]; !served[p.ID] && p.Monitor != nil {
			units = append(units, unit{pool: p})
		}
	}
	return units
}

// before returns the unit as it was when HAProxy accepted it, with the members of now.
func (u unit) before(accepted unit) unit {
	pool := *accepted.pool
	pool.Members = u.pool.Members
	return unit{listener: accepted.listener, pool: &pool}
}

// asRemoved returns the unit without members.
func (u unit) asRemoved() unit {
	pool := *u.pool
	pool.Members = nil
	return unit{u.listener, &pool, true}
}

// needsReload reports whether HAProxy has to reload to change a unit into this one: it does not for members and limits.
func (u unit) needsReload(was unit) bool {
	pool, before := *u.pool, *was.pool
	pool.Members, pool.Drain, before.Members, before.Drain = nil, 0, nil, 0
	if u.listener == nil || was.listener == nil {
		return u.listener != was.listener || !reflect.DeepEqual(pool, before)
	}
	l := *u.listener
	if (l.MaxConnections > 0) == (was.listener.MaxConnections > 0) {
		l.MaxConnections = was.listener.MaxConnections
	}
	if quotaOf(l.MaxQPS).Seconds == quotaOf(was.listener.MaxQPS).Seconds {
		l.MaxQPS = was.listener.MaxQPS
	}
	return !reflect.DeepEqual(l, *was.listener) || !reflect.DeepEqual(pool, before)
}

// planOf returns what HAProxy has to do for the units. A unit that it cannot do becomes a fault, and stays as it was
// accepted before, if it was. There are at most that many checks.
func planOf(
	units []unit, certificates func(ids []string) (files []string, err error), accepted map[string]unit, refused refusals,
	checks int,
) *plan {
	p := &planner{
		plan: plan{backendOf: map[string]string{}}, certificates: certificates, checks: checks,
		backends: map[string]int{}, binds: map[netip.AddrPort]bool{}, faulty: map[string]bool{},
	}
	// Those that are there keep what they have: they come before those that grow, and what was removed comes last.
	rank := func(u unit) int {
		was, ok := accepted[u.key()]
		switch {
		case u.removed:
			return 2
		case !ok, len(u.pool.Members) > len(was.pool.Members):
			return 1
		}
		return 0
	}
	slices.SortStableFunc(units, func(a, b unit) int { return rank(a) - rank(b) })
	for _, u := range units {
		forms := []unit{u}
		if old, ok := accepted[u.key()]; ok {
			forms = append(forms, u.before(old), old)
		}
		var reason error
		if r := refused[u.key()]; r != nil {
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
		if reason != nil && !u.removed {
			p.faults = append(p.faults, u.fault(reason))
		}
	}
	// The order must not depend on which units are removed.
	slices.SortFunc(p.frontends, func(a, b frontend) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(p.plan.backends, func(a, b backend) int { return cmp.Compare(a.Name, b.Name) })
	return &p.plan
}

type planner struct {
	plan
	certificates func(ids []string) ([]string, error)
	// checks is how many health checks are left.
	checks   int
	backends map[string]int
	binds    map[netip.AddrPort]bool
	// faulty has the members that are faults already, because several listeners use their pool.
	faulty map[string]bool
}

func (p *planner) add(u unit) error {
	b, faulty, err := backendOf(u)
	if err != nil {
		return err
	}
	checks := 0
	if _, ok := p.backends[b.Name]; !ok && b.Monitor != nil {
		checks = len(b.Servers)
	}
	if checks > p.checks {
		return fmt.Errorf("needs %d health checks, of which %d are left on the edge; the limit of open files of the agent "+
			"determines how many there are", checks, p.checks)
	}
	if u.listener != nil {
		f, err := frontendOf(u.listener, p.certificates)
		if err == nil && p.binds[f.Bind] {
			err = fmt.Errorf("a second listener has this address and port")
		}
		if err != nil {
			return err
		}
		p.binds[f.Bind] = true
		f.Backend, f.removed, b.Idle = b.Name, u.removed, f.Idle
		p.frontends = append(p.frontends, *f)
	}
	p.checks -= checks
	p.units = append(p.units, u)
	p.backendOf[u.key()] = b.Name
	for _, err := range faulty {
		if key := fmt.Sprintf("%v %v", u.pool.ID, err); !p.faulty[key] {
			p.faulty[key] = true
			p.faults = append(p.faults, u.fault(err))
		}
	}
	if at, ok := p.backends[b.Name]; ok {
		p.plan.backends[at].Idle = max(p.plan.backends[at].Idle, b.Idle)
		return nil
	}
	p.backends[b.Name] = len(p.plan.backends)
	p.plan.backends = append(p.plan.backends, *b)
	return nil
}

func frontendOf(l *config.Listener, certificates func(ids []string) ([]string, error)) (*frontend, error) {
	f := &frontend{
		listener: *l, Name: frontendName(l), Mode: modeOf(l), Bind: netip.AddrPortFrom(l.Address.Unmap(), l.Port),
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
		return kindHTTP
	}
	return kindTCP
}

// limited returns a time that HAProxy can measure; 0 means that there is none.
func limited(d time.Duration) time.Duration { return min(max(d, 0), longest) }
