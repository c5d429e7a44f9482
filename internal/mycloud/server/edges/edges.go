// Package edges keeps in memory what edges report of themselves: it changes with every heartbeat, so it is not stored.
package edges

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/visible"
)

const (
	// missed is the number of intervals without a heartbeat after which an edge is offline.
	missed = 3
	// faultBytes and healthBytes limit texts of edges. An edge must not count as offline because of a long one.
	faultBytes, healthBytes = 1024, 255
)

// Edge is an edge with what it last reported. It is never changed.
type Edge struct {
	ID, Name, State string
	// Zone is empty for an edge that serves all zones.
	Zone string
	// Since is the time from which the edge has been expected to follow changes: when it registered, came back, or the
	// server started.
	Since time.Time
	// HeartbeatAt is the time of the last heartbeat; zero if there was none since the server started.
	HeartbeatAt time.Time
	// Applied is the revision up to which the edge has applied all changes, except for those in Faults.
	Applied uint64
	Faults  []cloudv1.EdgeFault

	revision uint64
	// heard is the last sign of life.
	heard time.Time
	// faults are those of Faults by load balancer.
	faults map[string][]cloudv1.EdgeFault
	health map[memberID]cloudv1.MemberHealth
	// counters are those of all listeners by load balancer; nil if the edge has not reported any.
	counters map[string][]cloudv1.ListenerCounter
	// counted is how often the edge has reported counters, to any server.
	counted int
	// announced are the addresses that the edge announces; nil if it has not said.
	announced []string
}

type memberID struct{ loadBalancer, pool, family, key string }

// Online reports whether the edge has been heard of lately.
func (e *Edge) Online() bool { return e.State != cloudv1.EdgeOffline }

// Live reports whether the edge carries traffic and is there to stay.
func (e *Edge) Live() bool { return e.State == cloudv1.EdgeActive }

// FaultsOf returns what the edge could not apply of a load balancer.
func (e *Edge) FaultsOf(loadBalancer string) []cloudv1.EdgeFault { return e.faults[loadBalancer] }

// Health returns the health of a member as the edge sees it, and false if it has not reported any.
func (e *Edge) Health(loadBalancer, pool, family, key string) (cloudv1.MemberHealth, bool) {
	h, ok := e.health[memberID{loadBalancer, pool, family, key}]
	return h, ok
}

// MemberHealth returns the health of all members that the edge has probed.
func (e *Edge) MemberHealth() iter.Seq[cloudv1.MemberHealth] { return maps.Values(e.health) }

// CountersOf returns the counters of a load balancer's listeners.
func (e *Edge) CountersOf(loadBalancer string) []cloudv1.ListenerCounter {
	return e.counters[loadBalancer]
}

// Counters returns the counters of all load balancers, by their ids.
func (e *Edge) Counters() iter.Seq2[string, []cloudv1.ListenerCounter] { return maps.All(e.counters) }

// Counted returns how often the edge has reported counters, which changes with each report.
func (e *Edge) Counted() int { return e.counted }

// Announced returns the addresses that the edge announces, and false if it has not said. Callers must not change them.
func (e *Edge) Announced() ([]string, bool) { return e.announced, e.announced != nil }

// complete reports whether the cloud has all that the edge reports.
func (e *Edge) complete() bool { return e.health != nil && e.counters != nil }

// Registry has the registered edges. It is safe for concurrent use.
type Registry struct {
	clock    clock.Clock
	interval time.Duration

	mu      sync.Mutex
	edges   map[string]*Edge
	changed chan struct{}
}

// New returns a registry of edges that send a heartbeat every interval.
func New(c clock.Clock, interval time.Duration) *Registry {
	return &Registry{clock: c, interval: interval, edges: map[string]*Edge{}, changed: make(chan struct{})}
}

// Interval returns the time between heartbeats.
func (r *Registry) Interval() time.Duration { return r.interval }

// Number returns the revision of an object as a number; 0 if it has none.
func Number(revision string) uint64 {
	n, _ := strconv.ParseUint(revision, 10, 64)
	return n
}

// Put adds or replaces the durable part of an edge, as it was committed. A sign of life is one of the edge itself.
func (r *Registry) Put(stored *cloudv1.Edge, signOfLife bool) {
	revision := Number(stored.Revision)
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	e := Edge{ID: stored.ID, Since: now, heard: now}
	if old := r.edges[stored.ID]; old != nil {
		if e = *old; signOfLife {
			e.heard = now
		}
		// Commits arrive in any order.
		if revision < old.revision {
			return
		}
		if !old.Online() {
			e.Since, e.heard = now, now
		}
	}
	e.Name, e.State, e.Zone, e.revision = stored.Name, stored.State, stored.Zone, revision
	r.edges[e.ID] = &e
	r.wake()
}

// Drop removes an edge.
func (r *Registry) Drop(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.edges, id)
	r.wake()
}

// Report stores a heartbeat of a registered edge. applied is 0 if the edge has applied nothing of this cloud. complete is
// false if the cloud lacks health or counters of the edge, and news is true if the state of a member or the faults have changed.
func (r *Registry) Report(id string, applied uint64, h *cloudv1.Heartbeat) (complete, news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.edges[id]
	if old == nil {
		return false, false
	}
	e, now := *old, r.clock.Now()
	e.HeartbeatAt, e.heard, e.Applied = now, now, applied
	e.setFaults(h.Faults)
	if h.Health != nil {
		e.health = merged(old.health, h)
	}
	if h.Counters != nil {
		e.setCounters(*h.Counters, old.counted+1)
	}
	if h.Announced != nil {
		e.announced = *h.Announced
	}
	r.edges[id] = &e
	if applied != old.Applied || !slices.Equal(e.Faults, old.Faults) {
		r.wake()
	}
	// Operating states depend on both.
	news = h.Health != nil && !maps.EqualFunc(e.health, old.health, sameState) || !slices.Equal(e.Faults, old.Faults)
	return e.complete(), news
}

func (e *Edge) setFaults(faults []cloudv1.EdgeFault) {
	e.Faults, e.faults = make([]cloudv1.EdgeFault, 0, len(faults)), map[string][]cloudv1.EdgeFault{}
	for _, f := range faults {
		f.Detail = visible.Cut(f.Detail, faultBytes)
		e.Faults = append(e.Faults, f)
		e.faults[f.LoadBalancerID] = append(e.faults[f.LoadBalancerID], f)
	}
}

func (e *Edge) setCounters(counters []cloudv1.ListenerCounter, counted int) {
	e.counters, e.counted = map[string][]cloudv1.ListenerCounter{}, counted
	for _, c := range counters {
		e.counters[c.LoadBalancerID] = append(e.counters[c.LoadBalancerID], c)
	}
}

// merged returns the health of members after a heartbeat. Those that are unknown are not kept.
func merged(old map[memberID]cloudv1.MemberHealth, h *cloudv1.Heartbeat) map[memberID]cloudv1.MemberHealth {
	health := map[memberID]cloudv1.MemberHealth{}
	if !h.HealthReset {
		maps.Copy(health, old)
	}
	for _, m := range *h.Health {
		id := memberID{m.LoadBalancerID, m.PoolKey, m.Family, m.MemberKey}
		_, known := health[id]
		switch {
		case m.State == cloudv1.OperatingUnknown:
			delete(health, id)
		case known || len(health) < cloudv1.MaxHealth:
			m.Detail = visible.Cut(m.Detail, healthBytes)
			health[id] = m
		}
	}
	return health
}

func sameState(a, b cloudv1.MemberHealth) bool { return a.State == b.State }

// Get returns an edge, or nil.
func (r *Registry) Get(id string) *Edge {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.edges[id]
}

// Select returns the edges for which keep returns true, in the order of their names.
func (r *Registry) Select(keep func(*Edge) bool) []*Edge {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*Edge
	for _, e := range r.edges {
		if keep(e) {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *Edge) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Silent returns the ids of edges that have missed too many heartbeats to be online, and the time until the next edge may
// have; 0 if there is none.
func (r *Registry) Silent() (ids []string, next time.Duration) {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.edges {
		left := e.heard.Add(missed * r.interval).Sub(now)
		switch {
		case !e.Online():
		case left <= 0:
			ids = append(ids, e.ID)
		case next == 0 || left < next:
			next = left
		}
	}
	return ids, next
}

// Changed returns a channel that is closed when the edges, what they have applied or their faults change. To wait for a
// condition, get the channel before checking it.
func (r *Registry) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// wake requires the lock.
func (r *Registry) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// Wait waits for a time, or without limit if that is 0, or until news is closed. It returns false if ctx is done.
func (r *Registry) Wait(ctx context.Context, d time.Duration, news <-chan struct{}) bool {
	var fire <-chan time.Time
	if d > 0 {
		timer := r.clock.NewTimer(d)
		defer timer.Stop()
		fire = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-news:
	case <-fire:
	}
	return ctx.Err() == nil
}
