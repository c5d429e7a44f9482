package mirror

import (
	"context"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// Observed states are no changes of the cloud. While a load balancer does not serve, they are read after lookFirst, and
// then at intervals that double up to lookMax. They are also read when an edge has news about members, at most once in
// lookGap.
const (
	lookFirst = 2 * time.Second
	lookGap   = 30 * time.Second
	lookMax   = 5 * time.Minute
)

// look is the next time to read the observed states of load balancers.
type look struct {
	at, last time.Time
	pause    time.Duration
	// edges is the last change of an edge, and owed is true if the states have not been read since.
	edges Mark
	owed  bool
}

// observe reads the load balancers if that is due because one of them does not serve, or because an edge has news. It
// returns the time until it is due again, at most limit.
func (m *Mirror) observe(ctx context.Context, limit time.Duration) (time.Duration, error) {
	now, l := m.clock.Now(), &m.look
	if mark := m.edges.Mark(); mark != l.edges {
		l.edges, l.owed = mark, true
		// A long wait ends, but news never postpone a read.
		soon := now.Add(max(lookFirst, lookGap-now.Sub(l.last)))
		if l.at.IsZero() || soon.Before(l.at) {
			l.at, l.pause = soon, lookFirst
		}
	}
	if !l.owed && m.serving() {
		l.at = time.Time{}
		return limit, nil
	}
	if l.at.IsZero() {
		l.at, l.pause = now.Add(lookFirst), lookFirst
	}
	if !now.Before(l.at) {
		// The ETag stands for what is desired, so the list is read whole.
		if err := m.LoadBalancers.readUnless(ctx, ""); err != nil {
			return 0, err
		}
		l.owed, l.last = false, now
		if m.serving() {
			l.at = time.Time{}
			return limit, nil
		}
		l.pause = min(2*l.pause, lookMax)
		l.at = now.Add(l.pause)
	}
	return min(limit, l.at.Sub(now)), nil
}

// serving reports whether no load balancer is known not to serve.
func (m *Mirror) serving() bool {
	s := m.LoadBalancers
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, lb := range s.items {
		switch lb.OperatingState {
		case cloudv1.OperatingNoMembers, cloudv1.OperatingDegraded, cloudv1.OperatingOffline:
			return false
		}
	}
	return true
}
