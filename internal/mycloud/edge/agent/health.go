package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
)

// healthInterval is how often the health of members is read.
const healthInterval = 500 * time.Millisecond

// memberID is a member of a pool.
type memberID struct {
	pool   config.PoolID
	member string
}

// forwarder is what the kernel is to do, which both states and health decide.
type forwarder struct {
	mu sync.Mutex
	// config is nil until there is one, and done the last one that the kernel has applied.
	config, done *config.Config
	healthy      map[memberID]bool
	// failed is true if the kernel has not applied it yet.
	failed bool
}

// isHealthy reports whether a member may get new connections. A member that has not been probed yet may: the edge may
// have just started, and its load balancers must not stop for that.
func (f *forwarder) isHealthy(pool config.PoolID, member string) bool {
	healthy, known := f.healthy[memberID{pool, member}]
	return healthy || !known
}

// probed notes what is known of members, and reports whether that has changed. If it is not complete, the other members
// stay as they are.
func (f *forwarder) probed(found []cloudv1.MemberHealth, complete bool) bool {
	healthy := make(map[memberID]bool, len(found))
	if !complete {
		maps.Copy(healthy, f.healthy)
	}
	for _, h := range found {
		id := memberID{config.PoolID{LoadBalancer: h.LoadBalancerID, Key: h.PoolKey, Family: h.Family}, h.MemberKey}
		switch h.State {
		case cloudv1.OperatingOnline, cloudv1.OperatingOffline:
			healthy[id] = h.State == cloudv1.OperatingOnline
		case cloudv1.OperatingUnknown:
			// A proxy that has started again does not know yet what the one before it knew.
			if was, known := f.healthy[id]; known {
				healthy[id] = was
			}
		}
	}
	changed := !maps.Equal(healthy, f.healthy)
	f.healthy = healthy
	return changed
}

// forward has the kernel do what the forwarder says, whose lock is held.
func (a *Agent) forward(ctx context.Context) error {
	f := &a.forwarder
	faulty, err := a.Kernel.Apply(ctx, f.config, f.isHealthy)
	f.failed = err != nil
	if err != nil {
		err = fmt.Errorf("apply to the kernel: %w", err)
		faulty = engineFaults(err, func(e config.Engine) bool { return e != config.Proxy }, f.done, f.config)
	} else {
		f.done = f.config
	}
	served := a.Kernel.Serves()
	a.mu.Lock()
	a.serving.forwarded, a.serving.known = served, a.serving.known || err == nil
	a.mu.Unlock()
	a.setFaults(func(f *faults) { f.forwarded = faulty })
	return err
}

// followHealth reads the health of members and applies it until ctx is done.
func (a *Agent) followHealth(ctx context.Context) {
	ticker := a.Clock.NewTicker(healthInterval)
	defer ticker.Stop()
	note := a.noteErrors(ctx, "Could not apply the health of members", "The health of members is applied again")
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			note(a.checkHealth(ctx))
		}
	}
}

// checkHealth takes unhealthy members of the kernel's pools out, and healthy ones in. Those that the proxy does not know of
// because of an error stay as they are.
func (a *Agent) checkHealth(ctx context.Context) error {
	found, err := a.Proxy.Health(ctx)
	begun, kernelErr := a.forwardHealth(ctx, found, err == nil)
	if !begun {
		return nil
	}
	if err != nil {
		err = fmt.Errorf("read health: %w", err)
	} else {
		err = a.observe(ctx, found)
		a.watch.begin(partHealth)
	}
	a.serve(ctx, func(*serving) {})
	return errors.Join(err, kernelErr)
}

// forwardHealth has the kernel do what follows from the health of members, if that is known, and whatever else is due. It
// returns false as long as there is nothing to do at all.
func (a *Agent) forwardHealth(ctx context.Context, found []cloudv1.MemberHealth, complete bool) (begun bool, err error) {
	f := &a.forwarder
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.config == nil {
		return false, nil
	}
	if f.probed(found, complete) || f.failed || a.Kernel.Due() {
		err = a.forward(ctx)
	}
	return true, err
}

// observe reports the health of members and what listeners have done.
func (a *Agent) observe(ctx context.Context, found []cloudv1.MemberHealth) error {
	proxied, err1 := a.Proxy.Counters(ctx)
	forwarded, err2 := a.Kernel.Counters(ctx)
	counters := summed(slices.Concat(proxied, forwarded))
	a.Metrics.observe(found, counters, a.Kernel.Overflows())
	a.setReport(func(r *report) { r.health, r.counters = found, counters })
	return errors.Join(err1, err2)
}

// summed returns the counters with those of one listener as one: it may have moved from one engine to the other.
func summed(list []cloudv1.ListenerCounter) []cloudv1.ListenerCounter {
	type id struct{ loadBalancer, key, family string }
	at := make(map[id]int, len(list))
	sums := make([]cloudv1.ListenerCounter, 0, len(list))
	for _, c := range list {
		key := id{c.LoadBalancerID, c.ListenerKey, c.Family}
		i, ok := at[key]
		if !ok {
			at[key] = len(sums)
			sums = append(sums, c)
			continue
		}
		sums[i].Accepted += c.Accepted
		sums[i].Refused += c.Refused
		sums[i].BytesIn += c.BytesIn
		sums[i].BytesOut += c.BytesOut
	}
	return sums
}
