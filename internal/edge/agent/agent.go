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
	// startTimeout is how long an agent that starts waits for the cloud, before it goes on with the last state: after a week,
	// that state has load balancers and members that no longer exist.
	startTimeout = 3 * time.Second
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
	// Apply adds and removes addresses until the machine has exactly these. It returns those that it could not add, and an
	// error if something else failed.
	Apply(ctx context.Context, addresses []netip.Addr) (missing map[netip.Addr]error, err error)
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

	// The rest is used by the loop only. applied is the last state of which all was applied.
	applied *state.State
	// config is what both engines do, and forwarded what the kernel does, which does not wait for the proxy.
	config, forwarded *config.Config
	faults            faults
	announced         []netip.Addr
	healthy           map[memberID]bool
}

// faults are what could not be applied, by where it was found.
type faults struct {
	compiled, proxied, forwarded, addresses []cloudv1.EdgeFault
}

func (f *faults) all() []cloudv1.EdgeFault {
	return slices.Concat(f.compiled, f.proxied, f.forwarded, f.addresses)
}

// memberID is a member of a pool.
type memberID struct {
	pool   config.PoolID
	member string
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
	return &Agent{
		Options: o, wanted: s, wake: make(chan struct{}, 1), beat: make(chan struct{}, 1), healthy: map[memberID]bool{},
	}
}

// Run runs the agent until ctx is done. The engines continue; before they stop as well, call Leave.
func (a *Agent) Run(ctx context.Context) {
	var wg sync.WaitGroup
	answered, note := make(chan struct{}), a.noteFollowing(ctx)
	answer := sync.OnceFunc(func() { close(answered) })
	wg.Go(func() {
		f := state.Follower{Cloud: a.Cloud, Clock: a.Clock, OnState: a.setWanted, OnError: func(err error) {
			note(err)
			answer()
		}}
		f.Follow(ctx, a.latest())
	})
	wg.Go(func() { a.reportPeriodically(ctx) })
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
	note := a.noteErrors(ctx, "Could not follow the cloud; the last state stays in force", "The cloud answers again")
	return func(err error) {
		a.Metrics.following(err == nil)
		note(err)
	}
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

// loop applies states and health, one after the other.
func (a *Agent) loop(ctx context.Context) {
	health := a.Clock.NewTicker(healthInterval)
	defer health.Stop()
	announcements := a.Clock.NewTicker(announceInterval)
	defer announcements.Stop()
	var retry <-chan time.Time
	noteHealth := a.noteErrors(ctx, "Could not apply the health of members", "The health of members is applied again")
	noteAnnouncements := a.noteErrors(ctx, "Could not announce addresses again", "Addresses are announced again")
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
			noteAnnouncements(a.Announcer.Announce(ctx, a.announced))
			continue
		case <-health.C():
			noteHealth(a.applyHealth(ctx))
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
	err := a.apply(ctx, wanted)
	if ctx.Err() != nil {
		return true
	}
	faults := a.faults.all()
	if err != nil {
		a.Logger.ErrorContext(ctx, "Could not apply the state of the cloud", "revision", wanted.Revision, "error", err)
		a.Metrics.applyFailed()
		// What the edge applied before is still in force, and so is the revision.
		faults = append(faults, cloudv1.EdgeFault{Detail: err.Error()})
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

// apply applies a state: first the rules, then the addresses, then the announcements; and the other way around for what
// is no longer wanted. What fails holds up only what depends on it.
func (a *Agent) apply(ctx context.Context, s *state.State) error {
	c, faulty := config.Compile(s, a.config, a.Compile)
	a.faults.compiled = faulty
	announce := c.Addresses
	if config.Leaving(s, a.Edge.Name) {
		announce = nil
	}
	a.Certificates.set(keyPairs(s))
	same := a.config != nil && a.applied != nil && reflect.DeepEqual(c, a.config) &&
		reflect.DeepEqual(s.KeyPairs, a.applied.KeyPairs)
	if same && slices.Equal(announce, a.announced) {
		a.save(ctx, s)
		return nil
	}
	withdrawErr := a.withdraw(ctx, announce)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := a.applyRules(ctx, c); err != nil {
		return errors.Join(withdrawErr, err)
	}
	missing, err := a.Addresses.Apply(ctx, c.Addresses)
	if err != nil {
		err = fmt.Errorf("set addresses: %w", err)
	}
	a.faults.addresses = addressFaults(c, missing)
	announce = slices.DeleteFunc(slices.Clone(announce), func(x netip.Addr) bool { return missing[x] != nil })
	announceErr := a.Announcer.Announce(ctx, announce)
	if announceErr != nil {
		announceErr = fmt.Errorf("announce addresses: %w", announceErr)
	} else {
		a.announced = announce
	}
	a.save(ctx, s)
	return errors.Join(withdrawErr, err, announceErr)
}

// applyRules has the engines do what the configuration says.
func (a *Agent) applyRules(ctx context.Context, c *config.Config) error {
	proxied, proxyErr := a.Proxy.Apply(ctx, c)
	if proxyErr != nil {
		proxyErr = fmt.Errorf("apply to the proxy: %w", proxyErr)
	}
	if a.config == nil {
		// A proxy that was there before the agent has probed the members.
		if _, healthy, err := a.readHealth(ctx); err == nil {
			a.healthy = healthy
		}
	}
	// The kernel does not need the proxy.
	forwarded, kernelErr := a.Kernel.Apply(ctx, c, a.isHealthy)
	if kernelErr != nil {
		kernelErr = fmt.Errorf("apply to the kernel: %w", kernelErr)
	} else {
		a.forwarded, a.faults.forwarded = c, forwarded
	}
	if err := errors.Join(proxyErr, kernelErr); err != nil {
		return err
	}
	a.config, a.faults.proxied = c, proxied
	return nil
}

// addressFaults returns the faults of the load balancers whose address is missing.
func addressFaults(c *config.Config, missing map[netip.Addr]error) []cloudv1.EdgeFault {
	var faults []cloudv1.EdgeFault
	for _, l := range c.Listeners {
		if err := missing[l.Address]; err != nil {
			faults = append(faults, cloudv1.EdgeFault{
				LoadBalancerID: l.LoadBalancer, ListenerKey: l.Key, Detail: fmt.Sprintf("address %s: %v", l.Address, err),
			})
		}
	}
	return faults
}

// withdraw stops announcing what is not to be announced, and waits until the traffic has gone elsewhere.
func (a *Agent) withdraw(ctx context.Context, wanted []netip.Addr) error {
	kept := slices.DeleteFunc(slices.Clone(a.announced), func(x netip.Addr) bool { return !slices.Contains(wanted, x) })
	if len(kept) == len(a.announced) {
		return nil
	}
	return a.keep(ctx, kept)
}

// Leave withdraws all addresses and waits until the traffic has gone to other edges.
func (a *Agent) Leave(ctx context.Context) error { return a.keep(ctx, nil) }

// keep announces only these addresses, and waits until the traffic of the others has gone elsewhere.
func (a *Agent) keep(ctx context.Context, kept []netip.Addr) error {
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
		id := memberID{config.PoolID{LoadBalancer: h.LoadBalancerID, Key: h.PoolKey, Family: h.Family}, h.MemberKey}
		switch h.State {
		case cloudv1.OperatingOnline, cloudv1.OperatingOffline:
			healthy[id] = h.State == cloudv1.OperatingOnline
		case cloudv1.OperatingUnknown:
			// A proxy that has started again does not know yet what the one before it knew.
			if was, known := a.healthy[id]; known {
				healthy[id] = was
			}
		}
	}
	return found, healthy, nil
}

// applyHealth takes unhealthy members of the kernel's pools out, and healthy ones in. While the proxy does not answer,
// they stay as they are.
func (a *Agent) applyHealth(ctx context.Context) error {
	if a.forwarded == nil {
		return nil
	}
	found, healthy, err := a.readHealth(ctx)
	if err != nil {
		healthy = a.healthy
	} else {
		err = a.observe(ctx, found)
	}
	was := a.healthy
	if reflect.DeepEqual(healthy, was) && !a.Kernel.Due() {
		return err
	}
	a.healthy = healthy
	faulty, kernelErr := a.Kernel.Apply(ctx, a.forwarded, a.isHealthy)
	if kernelErr != nil {
		// The next time, it is still news.
		a.healthy = was
		return errors.Join(err, kernelErr)
	}
	if !slices.Equal(faulty, a.faults.forwarded) {
		a.faults.forwarded = faulty
		a.setReport(func(r *report) { r.faults = a.faults.all() })
	}
	return err
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
