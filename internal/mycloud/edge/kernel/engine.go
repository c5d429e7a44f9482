//go:build linux

package kernel

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/durable"
	"quaymaster.dev/internal/mycloud/edge/config"
)

// defaultFlows bounds the memory that flows use to about 200 MB.
const defaultFlows = 1 << 20

// Options configures an Engine.
type Options struct {
	// Dir is the directory in which the engine keeps what it must know after a restart.
	Dir string
	// MaxFlows is the number of flows that are remembered for each protocol and address family, in addition to those that
	// each load balancer has for itself; 0 means a default. Flows beyond it are forwarded as well, but may move to another
	// member when members join or leave.
	MaxFlows int
	// MaxConnections is how many connections that the kernel tracks an address of a load balancer may have: those that it
	// translates, and those of the proxy. 0 means an eighth of what the kernel tracks, and at most 262,144.
	MaxConnections int
	// Router is true if the machine forwards packets of others as well. Without it, what belongs to no listener is dropped:
	// to forward packets of listeners, the machine has to be a router.
	Router bool
	// Clock defaults to the real one.
	Clock clock.PassiveClock
	// Logger defaults to slog's.
	Logger *slog.Logger
}

// Engine writes what the kernel does for listeners.
type Engine struct {
	options Options

	mu       sync.Mutex
	store    durable.JSON
	memory   *memory
	firewall firewall
	network  network
	// due is when Apply has to be called again at the latest; zero before the first call.
	due time.Time
	// faults are those of the last call, and pause is until they are looked at again.
	faults []cloudv1.EdgeFault
	pause  time.Duration
}

// New returns an engine. It does nothing yet.
func New(o Options) *Engine {
	if o.MaxFlows == 0 {
		o.MaxFlows = defaultFlows
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = defaultConnections()
	}
	return &Engine{
		options:  o,
		store:    durable.JSON{Path: filepath.Join(o.Dir, "kernel.json")},
		firewall: firewall{renderer: renderer{flows: uint64(o.MaxFlows), connections: o.MaxConnections, router: o.Router}},
	}
}

// Apply makes the kernel carry the traffic of the listeners with engine Direct and NAT, to the members for which healthy
// returns true. It writes differences only. What fails is a fault of the member or listener that it belongs to, which
// stays as it was, and everything else is applied. An error means that the kernel goes on with what it did before.
func (e *Engine) Apply(
	ctx context.Context, c *config.Config, healthy func(pool config.PoolID, memberKey string) bool,
) ([]cloudv1.EdgeFault, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open(ctx)
	links := map[netip.Addr]link{}
	planner := planner{
		healthy: healthy, now: e.options.Clock.Now(), before: e.memory,
		reachable: func(address netip.Addr, nat bool) error {
			l, ok := links[address]
			if !ok {
				l = e.network.link(address)
				links[address] = l
			}
			return l.reach(nat)
		},
	}
	p := planner.plan(c)
	if err := e.network.prepare(p, links); err != nil {
		return nil, err
	}
	unrouted, err := e.network.addRoutes(p.routes(), links)
	if err != nil {
		return nil, err
	}
	if len(unrouted) > 0 {
		for address, err := range unrouted {
			links[address] = link{err: err}
		}
		p = planner.plan(c)
	}
	// Before the rules: if the agent ended between the two, a mark that connections already have could be given to another
	// member. A mark in the file that no connection has does no harm.
	if err := e.store.Save(p.memory); err != nil {
		// Traffic matters more: without the file, connections may move to other members when the engine restarts.
		e.options.Logger.ErrorContext(ctx, "Could not keep the marks of members for the next start", "error", err)
	}
	faults, err := e.firewall.apply(ctx, p)
	if err != nil {
		return nil, err
	}
	e.memory, e.due = p.memory, planner.now.Add(e.interval(p.faults))
	if !p.due.IsZero() && p.due.Before(e.due) {
		e.due = p.due
	}
	if err := errors.Join(e.network.removeRoutes(p.routes()), e.network.forget(p.translations())); err != nil {
		// No packet takes them any more.
		e.options.Logger.WarnContext(ctx, "Could not remove all of members that are gone; trying again", "error", err)
		e.due = planner.now.Add(faultInterval)
	}
	return append(p.faults, faults...), nil
}

// Serves returns the addresses and ports of the listeners that the kernel has rules for, whatever has failed since.
func (e *Engine) Serves() []netip.AddrPort {
	e.mu.Lock()
	defer e.mu.Unlock()
	var served []netip.AddrPort
	for _, s := range e.firewall.services {
		served = append(served, s.at)
	}
	return served
}

// checkInterval is how often rules and routes are compared with what they should be: other programs, such as network
// managers, remove what they do not know.
const checkInterval = 10 * time.Second

// faultInterval is that after new faults: an interface may be back soon.
const faultInterval = time.Second

// interval returns the time until the next check. Faults that last, such as those of a tenant's own mistakes, are
// looked at less and less often.
func (e *Engine) interval(faults []cloudv1.EdgeFault) time.Duration {
	if slices.Equal(faults, e.faults) {
		e.pause = min(2*e.pause, checkInterval)
	} else {
		e.faults, e.pause = faults, faultInterval
	}
	if len(faults) == 0 {
		return checkInterval
	}
	return e.pause
}

// Due reports whether Apply has something to do even if nothing has changed: a member's drain is over, or rules and
// routes have to be checked.
func (e *Engine) Due() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.due.IsZero() && !e.options.Clock.Now().Before(e.due)
}

// Counters returns what the listeners have done since the machine started, or since the listener was created.
func (e *Engine) Counters(context.Context) ([]cloudv1.ListenerCounter, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	counters, err := e.firewall.counters()
	if err != nil {
		// The table may be gone.
		e.due = e.options.Clock.Now()
	}
	return counters, err
}

// Overflows returns what load balancers had beyond their shares when Counters was last called.
func (e *Engine) Overflows() []config.Overflow {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.firewall.overflows
}

// open reads what the last engine has left.
func (e *Engine) open(ctx context.Context) {
	if e.memory != nil {
		return
	}
	e.memory = newMemory()
	if err := e.store.Load(e.memory); err != nil {
		// Connections may break that would not with the file, but new ones work.
		e.options.Logger.ErrorContext(ctx, "Could not read the marks of members; all get new ones", "error", err)
		e.memory = newMemory()
	}
}
