package mirror

import (
	"context"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// Observed states are no changes of the cloud. While a load balancer does not serve, they are read after lookFirst, and
// then at intervals that double up to lookMax.
const (
	lookFirst = 2 * time.Second
	lookMax   = 5 * time.Minute
)

// look is the next time to read the observed states of load balancers.
type look struct {
	at    time.Time
	pause time.Duration
}

// observe reads the load balancers if that is due because one of them does not serve. It returns the time until it is
// due again, at most limit.
func (m *Mirror) observe(ctx context.Context, limit time.Duration) (time.Duration, error) {
	now := m.clock.Now()
	switch {
	case m.serving():
		m.look = look{}
		return limit, nil
	case m.look.at.IsZero():
		m.look = look{at: now.Add(lookFirst), pause: lookFirst}
	case !now.Before(m.look.at):
		// The ETag stands for what is desired, so the list is read whole.
		if err := m.LoadBalancers.readUnless(ctx, ""); err != nil {
			return 0, err
		}
		m.look.pause = min(2*m.look.pause, lookMax)
		m.look.at = now.Add(m.look.pause)
	}
	return min(limit, m.look.at.Sub(now)), nil
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
