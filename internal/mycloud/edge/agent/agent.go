// Package agent makes one machine carry the traffic of load balancers: it follows the cloud, compiles what the cloud
// wants, and has the engines do it. Whatever happens to the agent, the engines go on with what they last applied.
package agent

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/internal/mycloud/edge/state"
)

const (
	// retryInterval is the time until something that failed is tried again.
	retryInterval = 5 * time.Second
	// startTimeout is how long an agent that starts waits for the cloud, before it goes on with the last state: after a week,
	// that state has load balancers and members that no longer exist.
	startTimeout = 3 * time.Second
)

// Proxy is the engine that proxies connections and probes members.
type Proxy interface {
	// Apply carries the traffic of the listeners with engine Proxy and probes the members of all pools. It returns the
	// listeners that it could not apply, and an error if it does not work at all.
	Apply(ctx context.Context, c *config.Config) ([]cloudv1.EdgeFault, error)
	// Turn returns when Apply has to be called again to make the first of the changes that wait; zero if nothing waits.
	Turn() time.Time
	// Serves returns the addresses and ports that it serves now, and an error if it may serve none.
	Serves(ctx context.Context) ([]netip.AddrPort, error)
	// Health returns the health of the members of all pools; with an error, of those that it knows.
	Health(ctx context.Context) ([]cloudv1.MemberHealth, error)
	// Counters returns what the listeners have done.
	Counters(ctx context.Context) ([]cloudv1.ListenerCounter, error)
}

// Kernel is the engine that forwards packets.
type Kernel interface {
	// Apply carries the traffic of the listeners with engine Direct and NAT, to healthy members.
	Apply(
		ctx context.Context, c *config.Config, healthy func(pool config.PoolID, member string) bool,
	) ([]cloudv1.EdgeFault, error)
	// Serves returns the addresses and ports that it serves, whatever has failed since.
	Serves() []netip.AddrPort
	// Due reports whether Apply has something to do although nothing has changed, because a drain is over.
	Due() bool
	Counters(ctx context.Context) ([]cloudv1.ListenerCounter, error)
	// Overflows returns what load balancers had beyond their shares when Counters was last called.
	Overflows() []config.Overflow
}

// Addresses makes the machine answer for addresses.
type Addresses interface {
	// Apply adds and removes addresses until the machine has exactly these. It returns those that it could not add or
	// remove, and an error if something else failed.
	Apply(ctx context.Context, addresses []netip.Addr) (failed map[netip.Addr]error, err error)
}

// Announcer attracts the traffic for addresses.
type Announcer interface {
	// Announce announces exactly these addresses.
	Announce(ctx context.Context, addresses []netip.Addr) error
	// Settle is how long traffic may still arrive for an address that is no longer announced.
	Settle() time.Duration
}

// Options configures an Agent; all fields but Clock are required.
type Options struct {
	Cloud Cloud
	// Identity is that of Cloud.
	Identity *Identity
	// Edge has the settings with which the edge registers.
	Edge cloudv1.EdgeSpec
	// Compile says what kind of edge it is.
	Compile config.Options
	// StateFile is where the last state is kept.
	StateFile string
	// WithdrawAfter is for how long the cloud may not answer before all addresses are withdrawn; 0 means for ever.
	WithdrawAfter time.Duration

	Proxy Proxy
	// Certificates are those of the proxy.
	Certificates *Certificates
	Kernel       Kernel
	Addresses    Addresses
	Announcer    Announcer

	Metrics *Metrics
	Clock   clock.WithTicker
	Logger  *slog.Logger
}

// Agent runs on an edge. It applies states, reads health, announces and reports in loops of their own: one that is stuck
// holds up no other.
type Agent struct {
	Options

	// wake tells the loop that applies that there is a new state, beat the reporter that there is something to report.
	wake, beat chan struct{}
	speaker    speaker
	forwarder  forwarder
	watch      watch

	mu sync.Mutex
	// wanted is the latest state of the cloud.
	wanted *state.State
	report report
	faults faults
	// serving is what the announcements follow from.
	serving serving
	// heard is when the cloud has answered last.
	heard time.Time
	// followed is true once a request for changes has ended, and unfollowed is the error of the last one.
	followed   bool
	unfollowed error
	// owners are the load balancers of all addresses that may be announced.
	owners map[netip.Addr]string

	// The rest is used by the loop that applies only. applied is the last state that was applied, complete is false if
	// some of it has to be tried again, and saved is false if a restart would undo it. config is what the engines were last
	// told to do, compiled the same without addresses that are given up, and proxied the last that the proxy has done. loaded
	// is the state of the last agent.
	applied, loaded           *state.State
	complete, saved           bool
	config, compiled, proxied *config.Config
	// settling has until when addresses that were withdrawn may still have traffic, and settled when the first of those that
	// stay for it has none; zero if there are none.
	settling map[netip.Addr]time.Time
	settled  time.Time
}

// New returns an Agent with the state that the last one has left.
func New(o Options) *Agent {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	s, err := state.Load(o.StateFile)
	if err != nil {
		// The engines go on, and the cloud has a better one.
		o.Logger.Error("Could not read the last state; waiting for that of the cloud", "error", err)
		s = state.New()
	}
	o.Identity.keep(s.Cloud)
	a := &Agent{
		Options: o, wanted: s, loaded: s, saved: err == nil, heard: lastHeard(o), wake: make(chan struct{}, 1), beat: make(chan struct{}, 1),
		settling:  map[netip.Addr]time.Time{},
		forwarder: forwarder{healthy: map[memberID]bool{}}, watch: watch{clock: o.Clock, since: map[string]time.Time{}},
	}
	a.speaker = speaker{
		wake: make(chan struct{}, 1), clock: o.Clock, done: make(chan struct{}), maybe: map[netip.Addr]bool{},
	}
	return a
}

// Run runs the agent until ctx is done. The engines continue; before they stop as well, call Leave.
func (a *Agent) Run(ctx context.Context) {
	var wg sync.WaitGroup
	answered := make(chan struct{})
	answer := sync.OnceFunc(func() { close(answered) })
	wg.Go(func() {
		f := state.Follower{
			Cloud: a.Cloud, Confirmed: a.Identity.confirmed, Clock: a.Clock, OnState: a.setWanted, OnError: func(err error) {
				a.follow(err)
				answer()
			},
		}
		f.Follow(ctx, a.latest())
	})
	wg.Go(func() { a.reportPeriodically(ctx) })
	wg.Go(func() { a.followHealth(ctx) })
	wg.Go(func() { a.announce(ctx) })
	wg.Go(func() { a.watchParts(ctx) })
	wg.Go(func() { a.watchCloud(ctx) })
	wg.Go(func() {
		select {
		case <-ctx.Done():
		case <-answered:
		case <-a.Clock.After(startTimeout):
		}
		// Without the cloud, the last state is the best there is.
		signal(a.wake)
	})
	a.loop(ctx)
	wg.Wait()
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// lastHeard returns when the cloud has answered the last agent.
func lastHeard(o Options) time.Time {
	now := o.Clock.Now()
	if file, err := os.Stat(o.StateFile); err == nil && file.ModTime().Before(now) {
		return file.ModTime()
	}
	return now
}

// hear notes that the cloud has answered.
func (a *Agent) hear() {
	now := a.Clock.Now()
	a.mu.Lock()
	a.heard = now
	a.mu.Unlock()
	a.stamp()
}

// stamp tells the next agent, by the time of the state's file, when the cloud has answered last.
func (a *Agent) stamp() {
	if a.WithdrawAfter == 0 {
		return
	}
	a.mu.Lock()
	heard := a.heard
	a.mu.Unlock()
	// Without it, the next agent withdraws too early.
	_ = os.Chtimes(a.StateFile, heard, heard)
}

func (a *Agent) setWanted(s *state.State) {
	a.hear()
	a.mu.Lock()
	a.wanted = s
	a.mu.Unlock()
	signal(a.wake)
}

func (a *Agent) latest() *state.State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wanted
}

// noteErrors returns a function that logs an error when it begins or becomes another, and when it has ended.
func (a *Agent) noteErrors(ctx context.Context, failing, over string) func(error) {
	last, times := "", 0
	return func(err error) {
		switch {
		case ctx.Err() != nil:
		case err == nil && last != "":
			a.Logger.InfoContext(ctx, over, "failures", times)
			last, times = "", 0
		case err != nil:
			if times++; err.Error() != last {
				a.Logger.WarnContext(ctx, failing, "error", err, "failures", times)
				last = err.Error()
			}
		}
	}
}
