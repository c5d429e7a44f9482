//go:build linux

package kernel

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/knftables"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/edge/config"
)

// defaultFlows bounds the memory that flows use to about 200 MB.
const defaultFlows = 1 << 20

// Options configures an Engine.
type Options struct {
	// Dir is the directory in which the engine keeps what it must know after a restart.
	Dir string
	// MaxFlows is the number of flows that are remembered for each protocol and address family; 0 means a default. Flows
	// beyond it are forwarded as well, but may move to another member when members join or leave.
	MaxFlows int
	// Clock defaults to the real one.
	Clock clock.PassiveClock
	// Logger defaults to slog's.
	Logger *slog.Logger
}

// Engine writes what the kernel does for listeners.
type Engine struct {
	options Options

	mu       sync.Mutex
	store    store
	memory   *memory
	firewall firewall
	network  network
	// due is when Apply has to be called again at the latest; zero before the first call.
	due time.Time
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
	return &Engine{
		options:  o,
		store:    store{path: filepath.Join(o.Dir, "kernel.json")},
		firewall: firewall{renderer: renderer{flows: uint64(o.MaxFlows)}},
	}
}

// Apply makes the kernel carry the traffic of the listeners with engine Direct and NAT, to the members for which healthy
// returns true. It writes differences only. It returns the listeners that it could not apply, which stay as they were,
// and an error if it could not apply any.
func (e *Engine) Apply(
	ctx context.Context, c *config.Config, healthy func(pool config.PoolID, memberKey string) bool,
) ([]cloudv1.EdgeFault, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.open(ctx); err != nil {
		return nil, err
	}
	links := map[netip.Addr]link{}
	planner := planner{
		healthy: healthy, now: e.options.Clock.Now(), before: e.memory,
		reachable: func(address netip.Addr) error {
			l, ok := links[address]
			if !ok {
				l = e.network.link(address)
				links[address] = l
			}
			return l.err
		},
	}
	p := planner.plan(c)
	routes := p.routes()
	if err := e.network.prepare(p, links); err != nil {
		return nil, err
	}
	if err := e.store.save(p.memory); err != nil {
		// Traffic matters more: without the file, connections may move to other members when the engine restarts.
		e.options.Logger.ErrorContext(ctx, "Could not keep the marks of members for the next start", "error", err)
	}
	if err := e.network.addRoutes(routes, links); err != nil {
		return nil, err
	}
	faults, err := e.firewall.apply(ctx, p)
	if err != nil {
		return nil, err
	}
	e.memory, e.due = p.memory, planner.now.Add(checkInterval)
	if len(p.faults) > 0 {
		// An interface may be back soon.
		e.due = planner.now.Add(faultInterval)
	}
	if !p.due.IsZero() && p.due.Before(e.due) {
		e.due = p.due
	}
	if err := e.network.removeRoutes(routes); err != nil {
		return nil, err
	}
	if err := e.network.forget(p.translations()); err != nil {
		return nil, err
	}
	return append(p.faults, faults...), nil
}

// checkInterval is how often rules and routes are compared with what they should be: other programs, such as network
// managers, remove what they do not know.
const checkInterval = 10 * time.Second

// faultInterval is that while there are faults.
const faultInterval = time.Second

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

// open reads what the last engine has left.
func (e *Engine) open(ctx context.Context) error {
	if e.memory == nil {
		e.memory = newMemory()
		if err := e.store.load(e.memory); err != nil {
			// Connections may break that would not with the file, but new ones work.
			e.options.Logger.ErrorContext(ctx, "Could not read the marks of members; all get new ones", "error", err)
			e.memory = newMemory()
		}
	}
	if e.firewall.nft == nil {
		nft, err := knftables.New(knftables.InetFamily, tableName)
		if err != nil {
			return fmt.Errorf("use nftables: %w", err)
		}
		e.firewall.nft = nft
	}
	return nil
}
