// Package agent makes one machine carry the traffic of load balancers: it follows the cloud, compiles what the cloud
// wants, and has the engines do it. Whatever happens to the agent, the engines go on with what they last applied.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/edge/config"
	"quaymaster.dev/internal/edge/state"
)

const (
	// healthInterval is how often the health of members is read.
	healthInterval = 500 * time.Millisecond
	// announceInterval is how often announcements are checked, in case what makes them has stopped.
	announceInterval = 10 * time.Second
	// retryInterval is the time until something that failed is tried again.
	retryInterval = 5 * time.Second
)

// Proxy is the engine that proxies connections and probes members.
type Proxy interface {
	// Apply carries the traffic of the listeners with engine Proxy and probes the members of all pools. It returns the
	// listeners that it could not apply, and an error if it could not apply any.
	Apply(ctx context.Context, c *config.Config) ([]cloudv1.EdgeFault, error)
	// Health returns the health of the members of all pools.
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
	// Due reports whether Apply has something to do although nothing has changed, because a drain is over.
	Due() bool
	Counters(ctx context.Context) ([]cloudv1.ListenerCounter, error)
}

// Addresses makes the machine answer for addresses.
type Addresses interface {
	// Apply adds and removes addresses until the machine has exactly these.
	Apply(ctx context.Context, addresses []netip.Addr) error
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
	// Edge has the settings with which the edge registers.
	Edge cloudv1.EdgeSpec
	// Compile says what kind of edge it is.
	Compile config.Options
	// StateFile is where the last state is kept.
	StateFile string

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

// Agent runs on an edge.
type Agent struct {
	Options

	// wake tells the loop that there is a new state, beat the reporter that there is something to report.
	wake, beat chan struct{}

	mu sync.Mutex
	// wanted is the latest state of the cloud.
	wanted *state.State
	report report

	// The rest is used by the loop only.
	applied      *state.State
	config       *config.Config
	engineFaults []cloudv1.EdgeFault
	announced    []netip.Addr
	healthy      map[memberID]bool
}

// memberID is a member of a pool.
type memberID struct {
	pool   config.PoolID
	member string
}

// New returns an Agent with the state that the last one has left.
func New(o Options) (*Agent, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	s, err := state.Load(o.StateFile)
	if err != nil {
		return nil, err
	}
	return &Agent{
		Options: o, wanted: s, wake: make(chan struct{}, 1), beat: make(chan struct{}, 1), healthy: map[memberID]bool{},
	}, nil
}

// Run runs the agent until ctx is done. The engines continue.
func (a *Agent) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() {
		f := state.Follower{Cloud: a.Cloud, Clock: a.Clock, OnState: a.setWanted, OnError: a.noteFollowing(ctx)}
		f.Follow(ctx, a.latest())
	})
	wg.Go(func() { a.reportPeriodically(ctx) })
	if a.latest().Revision != "" {
		// Without the cloud, the last state is the best there is.
		signal(a.wake)
	}
	a.loop(ctx)
	wg.Wait()
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (a *Agent) setWanted(s *state.State) {
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

// noteFollowing returns the function that logs when the cloud stops or starts to answer.
func (a *Agent) noteFollowing(ctx context.Context) func(error) {
	var last string
	return func(err error) {
		a.Metrics.following(err == nil)
		switch {
		case err == nil && last != "":
			a.Logger.InfoContext(ctx, "The cloud answers again")
			last = ""
		case err != nil && err.Error() != last:
			a.Logger.WarnContext(ctx, "Could not follow the cloud; the last state stays in force", "error", err)
			last = err.Error()
		}
	}
}

// loop applies states and health, one after the other.
func (a *Agent) loop(ctx context.Context) {
	health := a.Clock.NewTicker(healthInterval)
	defer health.Stop()
	announcements := a.Clock.NewTicker(announceInterval)
	defer announcements.Stop()
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		case <-retry:
			a.applied = nil
		case <-announcements.C():
			if a.config == nil {
				continue
			}
			if err := a.Announcer.Announce(ctx, a.announced); err != nil && ctx.Err() == nil {
				a.Logger.WarnContext(ctx, "Could not announce addresses again", "error", err)
			}
			continue
		case <-health.C():
			if err := a.applyHealth(ctx); err != nil {
				a.Logger.WarnContext(ctx, "Could not apply the health of members", "error", err)
			}
			continue
		}
		retry = nil
		if !a.step(ctx) {
			retry = a.Clock.After(retryInterval)
		}
	}
}

// step applies the latest state and reports how. It returns false if something has to be tried again.
func (a *Agent) step(ctx context.Context) bool {
	wanted := a.latest()
	if wanted.Revision == "" || wanted == a.applied {
		return true
	}
	start := a.Clock.Now()
	faults, err := a.apply(ctx, wanted)
	if ctx.Err() != nil {
		return true
	}
	if err != nil {
		a.Logger.ErrorContext(ctx, "Could not apply the state of the cloud", "revision", wanted.Revision, "error", err)
		a.Metrics.applyFailed()
		// What the edge applied before is still in force, and so is the revision.
		faults = append(faults, cloudv1.EdgeFault{Detail: shortened(err.Error())})
		a.setReport(func(r *report) { r.faults = faults })
		return false
	}
	a.applied = wanted
	a.Metrics.applied(a.config, faults, a.Clock.Since(start))
	for _, f := range faults {
		if !slices.Contains(a.currentReport().faults, f) {
			a.Logger.WarnContext(ctx, "Could not apply a listener",
				"loadBalancer", f.LoadBalancerID, "listener", f.ListenerKey, "detail", f.Detail)
		}
	}
	a.setReport(func(r *report) { r.revision, r.faults = wanted.Revision, faults })
	return len(faults) == 0
}

// maxDetail is the size of the detail of a fault that the cloud accepts.
const maxDetail = 1024

func shortened(s string) string {
	if len(s) > maxDetail {
		return s[:maxDetail]
	}
	return s
}

// apply applies a state: first the rules, then the addresses, then the announcements; and the other way around for what
// is no longer wanted.
func (a *Agent) apply(ctx context.Context, s *state.State) ([]cloudv1.EdgeFault, error) {
	c, faults := config.Compile(s, a.Compile)
	announce := c.Addresses
	if config.Leaving(s, a.Edge.Name) {
		announce = nil
	}
	a.Certificates.set(keyPairs(s))
	same := a.config != nil && a.applied != nil && reflect.DeepEqual(c, a.config) &&
		reflect.DeepEqual(s.KeyPairs, a.applied.KeyPairs)
	if same && slices.Equal(announce, a.announced) {
		a.save(ctx, s)
		return append(faults, a.engineFaults...), nil
	}
	if err := a.withdraw(ctx, announce); err != nil {
		return faults, err
	}
	proxied, proxyErr := a.Proxy.Apply(ctx, c)
	if a.config == nil {
		// A proxy that was there before the agent has probed the members.
		if _, healthy, err := a.readHealth(ctx); err == nil {
			a.healthy = healthy
		}
	}
	// The kernel does not need the proxy.
	forwarded, kernelErr := a.Kernel.Apply(ctx, c, a.isHealthy)
	if proxyErr != nil {
		return faults, fmt.Errorf("apply to the proxy: %w", proxyErr)
	}
	if kernelErr != nil {
		return faults, fmt.Errorf("apply to the kernel: %w", kernelErr)
	}
	a.engineFaults = slices.Concat(proxied, forwarded)
	if err := a.Addresses.Apply(ctx, c.Addresses); err != nil {
		return faults, fmt.Errorf("set addresses: %w", err)
	}
	if err := a.Announcer.Announce(ctx, announce); err != nil {
		return faults, fmt.Errorf("announce addresses: %w", err)
	}
	a.config, a.announced = c, announce
	a.save(ctx, s)
	return append(faults, a.engineFaults...), nil
}

// withdraw stops announcing what is not to be announced, and waits until the traffic has gone elsewhere.
func (a *Agent) withdraw(ctx context.Context, wanted []netip.Addr) error {
	kept := slices.DeleteFunc(slices.Clone(a.announced), func(x netip.Addr) bool { return !slices.Contains(wanted, x) })
	if len(kept) == len(a.announced) {
		return nil
	}
	if err := a.Announcer.Announce(ctx, kept); err != nil {
		return fmt.Errorf("withdraw addresses: %w", err)
	}
	a.announced = kept
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-a.Clock.After(a.Announcer.Settle()):
		return nil
	}
}

// save keeps the state for the next start. Traffic does not depend on it, so that a full disk is only logged.
func (a *Agent) save(ctx context.Context, s *state.State) {
	err := s.Save(a.StateFile)
	a.Metrics.saved(err == nil)
	if err != nil {
		a.Logger.ErrorContext(ctx, "Could not keep the state for the next start", "error", err)
	}
}

func keyPairs(s *state.State) map[string]cloudv1.KeyPair {
	pairs := make(map[string]cloudv1.KeyPair, len(s.KeyPairs))
	for id, c := range s.KeyPairs {
		pairs[id] = c.KeyPair
	}
	return pairs
}

// isHealthy reports whether a member may get new connections. A member that has not been probed yet may: the edge may
// have just started, and its load balancers must not stop for that.
func (a *Agent) isHealthy(pool config.PoolID, member string) bool {
	healthy, known := a.healthy[memberID{pool, member}]
	return healthy || !known
}

// readHealth returns the health of members as the proxy sees it, and for those that it has probed, whether they are
// healthy.
func (a *Agent) readHealth(ctx context.Context) ([]cloudv1.MemberHealth, map[memberID]bool, error) {
	found, err := a.Proxy.Health(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("read health: %w", err)
	}
	healthy := make(map[memberID]bool, len(found))
	for _, h := range found {
		if h.State == cloudv1.OperatingOnline || h.State == cloudv1.OperatingOffline {
			healthy[memberID{config.PoolID{LoadBalancer: h.LoadBalancerID, Key: h.PoolKey, Family: h.Family}, h.MemberKey}] =
				h.State == cloudv1.OperatingOnline
		}
	}
	return found, healthy, nil
}

// applyHealth takes unhealthy members of the kernel's pools out, and healthy ones in. While the proxy does not answer,
// they stay as they are.
func (a *Agent) applyHealth(ctx context.Context) error {
	if a.config == nil {
		return nil
	}
	found, healthy, err := a.readHealth(ctx)
	if err != nil {
		healthy = a.healthy
	} else {
		err = a.observe(ctx, found)
	}
	if reflect.DeepEqual(healthy, a.healthy) && !a.Kernel.Due() {
		return err
	}
	a.healthy = healthy
	_, kernelErr := a.Kernel.Apply(ctx, a.config, a.isHealthy)
	return errors.Join(err, kernelErr)
}

// observe reports the health of members and what listeners have done.
func (a *Agent) observe(ctx context.Context, found []cloudv1.MemberHealth) error {
	proxied, err1 := a.Proxy.Counters(ctx)
	forwarded, err2 := a.Kernel.Counters(ctx)
	counters := slices.Concat(proxied, forwarded)
	a.Metrics.observe(found, counters)
	a.setReport(func(r *report) { r.health, r.counters = found, counters })
	return errors.Join(err1, err2)
}
