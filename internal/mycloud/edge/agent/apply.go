package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/internal/mycloud/edge/state"
)

// faults are what could not be applied, by where it was found. The engines' are those of members, listeners and load
// balancers; an engine that does not work at all is one of the edge as well, and so is a state that cannot be kept.
type faults struct {
	compiled, proxied, forwarded, addresses, announced, lingering, stuck, unsaved []cloudv1.EdgeFault
}

func (f *faults) all() []cloudv1.EdgeFault {
	return slices.Concat(f.stuck, f.unsaved, f.proxied, f.forwarded, f.addresses, f.announced, f.lingering, f.compiled)
}

// compareFaults sorts faults by what they belong to.
func compareFaults(a, b cloudv1.EdgeFault) int {
	return cmp.Or(cmp.Compare(a.LoadBalancerID, b.LoadBalancerID), cmp.Compare(a.ListenerKey, b.ListenerKey), cmp.Compare(a.Detail, b.Detail))
}

// setFaults changes the faults, and reports and logs those that are new.
func (a *Agent) setFaults(change func(*faults)) {
	was := map[cloudv1.EdgeFault]bool{}
	var all []cloudv1.EdgeFault
	a.setReport(func(r *report) {
		for _, f := range r.faults {
			was[f] = true
		}
		change(&a.faults)
		all = a.faults.all()
		r.faults = all
	})
	a.Metrics.faulty(len(all))
	for _, f := range all {
		if !was[f] {
			a.Logger.Warn("Could not apply everything",
				"loadBalancer", f.LoadBalancerID, "listener", f.ListenerKey, "detail", f.Detail)
		}
	}
}

// loop applies states.
func (a *Agent) loop(ctx context.Context) {
	var retry <-chan time.Time
	var due time.Time
	for {
		again := false
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		case <-retry:
			retry, again = nil, true
		}
		a.step(ctx, again)
		if a.complete {
			retry = nil
			continue
		}
		now := a.Clock.Now()
		next := now.Add(retryInterval)
		if turn := a.Proxy.Turn(); !turn.IsZero() && turn.Before(next) {
			next = turn
		}
		if !a.settled.IsZero() && a.settled.Before(next) {
			next = a.settled
		}
		if retry == nil || next.Before(due) {
			retry, due = a.Clock.After(next.Sub(now)), next
		}
	}
}

// step applies the latest state, also if it is the same again, and reports how.
func (a *Agent) step(ctx context.Context, again bool) {
	wanted := a.latest()
	if wanted.Revision == "" || wanted == a.applied && !again {
		return
	}
	start := a.Clock.Now()
	a.watch.begin(partApply)
	a.apply(ctx, wanted, again)
	a.watch.end(partApply)
	if ctx.Err() != nil {
		return
	}
	a.applied = wanted
	a.Metrics.applied(a.config, a.Clock.Since(start))
	a.setReport(func(r *report) {
		// What is not among the faults counts as applied. What is not kept would be undone by a restart: the edge would serve
		// addresses again that others have by then.
		if a.saved && len(r.faults) < cloudv1.MaxFaults {
			r.revision = wanted.Revision
		}
	})
}

// apply applies a state: first the rules, then the addresses, then the announcements; and the other way around for what
// is no longer wanted. What fails is a fault of what it belongs to, and holds up nothing else.
func (a *Agent) apply(ctx context.Context, s *state.State, again bool) {
	c, compiled := config.Compile(s, a.config, a.Compile)
	leaving := config.Leaving(s, a.Edge.Name)
	a.Certificates.set(keyPairs(s))
	same := a.applied != nil && s.Cloud == a.applied.Cloud && reflect.DeepEqual(c, a.compiled) && reflect.DeepEqual(s.KeyPairs, a.applied.KeyPairs) &&
		leaving == config.Leaving(a.applied, a.Edge.Name)
	a.setFaults(func(f *faults) { f.compiled = compiled })
	if same && !again {
		return
	}
	a.own(s)
	announce := c.Addresses
	if leaving {
		announce = nil
	}
	a.withdraw(ctx, announce)
	if ctx.Err() != nil {
		return
	}
	lingering, settled := a.lingering(c.Addresses)
	all := c.With(lingering, a.config)
	a.applyProxy(ctx, all)
	a.applyKernel(ctx, all)
	failed, err := a.Addresses.Apply(ctx, all.Addresses)
	a.setFaults(func(f *faults) {
		f.addresses, f.lingering = addressFaults(a.owners, failed, err), lingeringFaults(lingering, a.owners)
	})
	a.config, a.compiled, a.settled = all, c, settled
	a.serve(ctx, func(s *serving) { s.config, s.leaving, s.failed = c, leaving, failed })
	a.speaker.settled(ctx)
	a.setFaults(func(f *faults) { f.announced = a.speaker.faults(a.owners) })
	if s != a.loaded && !same || !a.saved {
		// What compiles to the same need not be kept: an agent that starts with the older state learns the rest.
		a.save(s)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	// The kernel and the announcements are tried again by themselves, and what does not compile needs another state.
	a.complete = a.saved && len(a.faults.proxied)+len(a.faults.addresses)+len(a.faults.lingering) == 0
}

// applyProxy has the proxy do what the configuration says.
func (a *Agent) applyProxy(ctx context.Context, c *config.Config) {
	faulty, err := a.Proxy.Apply(ctx, c)
	if err != nil {
		err = fmt.Errorf("apply to the proxy: %w", err)
		faulty = engineFaults(err, func(e config.Engine) bool { return e == config.Proxy }, a.proxied, c)
		a.Metrics.applyFailed()
	} else {
		a.proxied = c
	}
	a.setFaults(func(f *faults) { f.proxied = faulty })
}

// applyKernel has the kernel do what the configuration says, whatever the proxy does.
func (a *Agent) applyKernel(ctx context.Context, c *config.Config) {
	f := &a.forwarder
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.config == nil {
		// A proxy that was there before the agent has probed the members.
		found, err := a.Proxy.Health(ctx)
		f.probed(found, err == nil)
		a.watch.begin(partHealth)
	}
	f.config = c
	if a.forward(ctx) != nil {
		a.Metrics.applyFailed()
	}
}

// engineFaults returns the faults of an engine that does not work: that of the edge, and one for each load balancer with
// listeners of the engine, those that it should no longer serve included.
func engineFaults(err error, uses func(config.Engine) bool, configs ...*config.Config) []cloudv1.EdgeFault {
	list := []cloudv1.EdgeFault{{Detail: err.Error()}}
	seen := map[string]bool{}
	for _, c := range configs {
		if c == nil {
			continue
		}
		for i := range c.Listeners {
			if id := c.Listeners[i].LoadBalancer; uses(c.Listeners[i].Engine) && !seen[id] {
				seen[id] = true
				list = append(list, cloudv1.EdgeFault{LoadBalancerID: id, Detail: err.Error()})
			}
		}
	}
	return list
}

// addressFaults returns the faults of the load balancers whose addresses could not be added or removed, and that of the
// edge if it could change none.
func addressFaults(owners map[netip.Addr]string, failed map[netip.Addr]error, err error) []cloudv1.EdgeFault {
	var list []cloudv1.EdgeFault
	if err != nil {
		list = append(list, cloudv1.EdgeFault{Detail: fmt.Sprintf("set addresses: %v", err)})
	}
	for _, x := range slices.SortedFunc(maps.Keys(failed), netip.Addr.Compare) {
		list = append(list, cloudv1.EdgeFault{LoadBalancerID: owners[x], Detail: fmt.Sprintf("address %s: %v", x, failed[x])})
	}
	return list
}

// save keeps the state for the next start. Traffic does not depend on it, but the edge confirms nothing that is not kept.
func (a *Agent) save(s *state.State) {
	err := s.Save(a.StateFile)
	a.stamp()
	a.saved = err == nil
	a.Metrics.saved(a.saved)
	var unsaved []cloudv1.EdgeFault
	if err != nil {
		unsaved = []cloudv1.EdgeFault{{Detail: fmt.Sprintf("changes are applied, but not confirmed: %v", err)}}
	}
	a.setFaults(func(f *faults) { f.unsaved = unsaved })
}

func keyPairs(s *state.State) map[string]cloudv1.KeyPair {
	pairs := make(map[string]cloudv1.KeyPair, len(s.KeyPairs))
	for id, c := range s.KeyPairs {
		pairs[id] = c.KeyPair
	}
	return pairs
}
