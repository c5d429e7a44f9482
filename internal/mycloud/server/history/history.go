// Package history keeps the traffic of load balancers over time: what edges have counted, as rates in steps. It is in memory
// only, bounded, and begins when the server starts.
package history

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/edges"
)

const (
	// mostSeries is the number of load balancers whose traffic is kept. Each takes 14 KiB. One that had no traffic for longer
	// than idleAfter gives way to another.
	mostSeries = 1024
	idleAfter  = time.Minute
	// reported is the longest time between two reports of counters while there is traffic: edges send them with the first
	// heartbeat after ten seconds, and heartbeats every two seconds. settle is how long after its end a step may still change.
	reported = 14 * time.Second
	settle   = reported
	// every is the time between two looks at what edges have reported.
	every = 2 * time.Second
)

// Range is a time that is kept, in steps.
type Range struct {
	// Name is that of the range in addresses of pages.
	Name string
	Step time.Duration
	// Steps is the number of steps that are kept.
	Steps int
}

// Ranges are those that are kept, the shortest first.
var Ranges = []Range{
	{Name: "15m", Step: 5 * time.Second, Steps: 180},
	{Name: "24h", Step: 2 * time.Minute, Steps: 720},
}

// Rates are averages per second in a step.
type Rates struct {
	Accepted, Refused, BytesIn, BytesOut float32
}

// add adds other rates in proportion.
func (r *Rates) add(other Rates, share float32) {
	r.Accepted += other.Accepted * share
	r.Refused += other.Refused * share
	r.BytesIn += other.BytesIn * share
	r.BytesOut += other.BytesOut * share
}

// none reports whether there was no traffic.
func (r Rates) none() bool { return r == Rates{} }

// Series is the traffic of a load balancer, or of all, over a range.
type Series struct {
	// Begin is when the first of Points begins, and Step how long each is.
	Begin time.Time
	Step  time.Duration
	// Points are the steps that have ended since the server started; the oldest is the first.
	Points []Rates
}

// Last returns the averages of the last steps.
func (s Series) Last(steps int) Rates {
	last := s.Points[max(0, len(s.Points)-steps):]
	var mean Rates
	for _, p := range last {
		mean.add(p, 1/float32(len(last)))
	}
	return mean
}

// History keeps the traffic of load balancers. It is safe for concurrent use.
type History struct {
	clock clock.Clock
	edges *edges.Registry
	exist Exist

	mu    sync.Mutex
	begin time.Time
	total *series
	// balancers has the series of load balancers by id.
	balancers map[string]*series
	// seen are the edges as of the last look, by id.
	seen map[string]sight
}

// sight is an edge when it had last reported counters, and its last heartbeat. An edge is never changed, so this costs
// little memory.
type sight struct {
	counted *edges.Edge
	heard   time.Time
}

// Exist calls fn with a function that reports whether there is a load balancer with an id.
type Exist func(fn func(has func(id string) bool)) error

// New returns the history of what edges report from now on of load balancers that exist.
func New(c clock.Clock, known *edges.Registry, exist Exist) *History {
	return &History{
		clock: c, edges: known, exist: exist, begin: c.Now(), total: &series{}, balancers: map[string]*series{}, seen: map[string]sight{},
	}
}

// Run follows the edges until ctx is done.
func (h *History) Run(ctx context.Context) {
	// When something was counted is what edges report, so it does not matter when it is read.
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			// After an error, the next look finds what this one has not.
			_ = h.look()
		}
	}
}

// look adds what edges have counted since the last look.
func (h *History) look() error { return h.exist(h.lookAt) }

func (h *History) lookAt(has func(id string) bool) {
	all := h.edges.Select(func(*edges.Edge) bool { return true })
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := make(map[string]sight, len(all))
	for _, e := range all {
		last := h.seen[e.ID]
		if last.counted == nil || h.count(last, e, has) {
			last.counted = e
		}
		last.heard = e.HeartbeatAt
		seen[e.ID] = last
	}
	h.seen = seen
}

// count adds what an edge has counted since a report of counters. It returns false as long as there is no new one, or it is
// not known when it was made.
func (h *History) count(since sight, e *edges.Edge, has func(id string) bool) bool {
	last := since.counted
	from, to := last.HeartbeatAt, e.HeartbeatAt
	switch {
	case last.Counted() == 0 || from.IsZero():
		// What the first counters of an edge count may have been long ago.
		return e.Counted() > 0
	case e.Counted() == last.Counted() || !to.After(from):
		return false
	}
	// An edge that was heard of, but said nothing of its counters, had no traffic.
	if idle := to.Add(-reported); since.heard.Before(idle) {
		from = later(from, since.heard)
	} else {
		from = later(from, idle)
	}
	var total Rates
	// A report may have very many load balancers, so that these are looked for only once.
	idlers := h.idlers(to)
	for id, now := range e.Counters() {
		sum := difference(last.CountersOf(id), now)
		s := h.balancers[id]
		if sum.none() || s == nil && !has(id) {
			continue
		}
		total.add(sum, 1)
		if s == nil {
			s = h.track(id, to, &idlers)
		}
		if s != nil {
			s.last = to
			s.spread(from, to, sum)
		}
	}
	h.total.spread(from, to, total)
	return true
}

// difference returns what listeners have counted between two reports. A counter that has decreased has begun again.
func difference(last, now []cloudv1.ListenerCounter) Rates {
	var sum Rates
	for _, n := range now {
		var was cloudv1.ListenerCounter
		for _, l := range last {
			if l.ListenerKey == n.ListenerKey && l.Family == n.Family {
				was = l
			}
		}
		sum.add(Rates{
			since(was.Accepted, n.Accepted), since(was.Refused, n.Refused), since(was.BytesIn, n.BytesIn), since(was.BytesOut, n.BytesOut),
		}, 1)
	}
	return sum
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func since(was, now uint64) float32 {
	if now < was {
		return float32(now)
	}
	return float32(now - was)
}

// idlers returns the ids of load balancers that are idle, the one that had no traffic for longest first.
func (h *History) idlers(now time.Time) []string {
	var ids []string
	for id, s := range h.balancers {
		if s.idle(now) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return h.balancers[a].last.Compare(h.balancers[b].last) })
	return ids
}

// track begins the series of a load balancer. If there are too many, that of the next idler ends. If all are busy, it returns nil:
// otherwise each report would need the series that the last one has ended.
func (h *History) track(id string, now time.Time, idlers *[]string) *series {
	for len(h.balancers) >= mostSeries {
		if len(*idlers) == 0 {
			return nil
		}
		// It may have had traffic since then.
		if next := (*idlers)[0]; h.balancers[next].idle(now) {
			delete(h.balancers, next)
		}
		*idlers = (*idlers)[1:]
	}
	s := &series{}
	h.balancers[id] = s
	return s
}

// Total returns the traffic of all load balancers.
func (h *History) Total(r Range) Series {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.series(h.total, r)
}

// Of returns the traffic of a load balancer, and false if it is not kept because too many others have traffic.
func (h *History) Of(id string, r Range) (Series, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.balancers[id]
	if s == nil {
		return h.series(&series{}, r), len(h.balancers) < mostSeries
	}
	return h.series(s, r), true
}

// Busiest returns the ids of the load balancers with traffic in the last minute, at most n, those with most requests first.
func (h *History) Busiest(n int) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return busiest(h.balancers, h.clock.Now(), n)
}

func (h *History) series(s *series, r Range) Series {
	last := step(h.clock.Now().Add(-settle), r.Step)
	first := max(last-int64(r.Steps), step(h.begin, r.Step))
	out := Series{Begin: time.Unix(0, first*int64(r.Step)).UTC(), Step: r.Step, Points: make([]Rates, 0, max(0, last-first))}
	for n := first; n < last; n++ {
		out.Points = append(out.Points, s.at(n, r))
	}
	return out
}

// step returns the number of the step that a time is in.
func step(t time.Time, length time.Duration) int64 { return t.UnixNano() / int64(length) }
