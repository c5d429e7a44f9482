package history

import (
	"cmp"
	"slices"
	"time"
)

// series has the traffic of one load balancer over all ranges.
type series struct {
	rings []ring
	// last is when there was traffic last.
	last time.Time
}

// idle reports whether there was no traffic lately.
func (s *series) idle(now time.Time) bool { return now.Sub(s.last) > idleAfter }

// ring has the steps of a range. The place of a step is its number modulo their number.
type ring struct {
	points []Rates
	// newest is the number of the newest step.
	newest int64
}

// spread adds sums over a time to the steps of all ranges, evenly.
func (s *series) spread(from, to time.Time, sum Rates) {
	if s.rings == nil {
		s.rings = make([]ring, len(Ranges))
	}
	for i, r := range Ranges {
		// What is older than the range is not kept.
		begin := max(from.UnixNano(), to.UnixNano()-int64(r.Step)*int64(r.Steps))
		end, whole := to.UnixNano(), float64(to.Sub(from))
		for begin < end {
			n := begin / int64(r.Step)
			until := min(end, (n+1)*int64(r.Step))
			s.rings[i].add(n, r.Steps, sum, float32(float64(until-begin)/whole/r.Step.Seconds()))
			begin = until
		}
	}
}

// add adds sums to a step, in proportion.
func (r *ring) add(n int64, steps int, sum Rates, share float32) {
	if r.points == nil {
		r.points, r.newest = make([]Rates, steps), n
	}
	if n <= r.newest-int64(steps) {
		return
	}
	for next := max(r.newest+1, n-int64(steps)+1); next <= n; next++ {
		r.points[next%int64(steps)] = Rates{}
	}
	r.newest = max(r.newest, n)
	r.points[n%int64(steps)].add(sum, share)
}

// at returns a step of a range.
func (s *series) at(n int64, r Range) Rates {
	i := slices.Index(Ranges, r)
	if i < 0 || len(s.rings) <= i {
		return Rates{}
	}
	ring := &s.rings[i]
	if ring.points == nil || n > ring.newest || n <= ring.newest-int64(r.Steps) {
		return Rates{}
	}
	return ring.points[n%int64(r.Steps)]
}

// busiest returns the ids of series with traffic in the last minute, those with most requests first.
func busiest(all map[string]*series, now time.Time, most int) []string {
	type load struct {
		id  string
		sum float32
	}
	var loads []load
	r := Ranges[0]
	newest := step(now, r.Step)
	for id, s := range all {
		if s.idle(now) {
			continue
		}
		l := load{id: id}
		for n := newest - int64(time.Minute/r.Step); n <= newest; n++ {
			p := s.at(n, r)
			l.sum += p.Accepted + p.Refused
		}
		loads = append(loads, l)
	}
	slices.SortFunc(loads, func(a, b load) int { return cmp.Or(cmp.Compare(b.sum, a.sum), cmp.Compare(a.id, b.id)) })
	ids := make([]string, 0, most)
	for _, l := range loads[:min(most, len(loads))] {
		ids = append(ids, l.id)
	}
	return ids
}
