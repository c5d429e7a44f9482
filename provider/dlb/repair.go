package dlb

import (
	"context"
	"fmt"
	"sync"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
)

const (
	// repairBase and repairMax bound the time between two attempts to repair a load balancer. It doubles each time.
	repairBase, repairMax = 30 * time.Second, 10 * time.Minute
)

// repair writes to a load balancer in error what it already has, so that the cloud tries again; but not too often.
func (b *Balancer) repair(ctx context.Context, r *round, lb *cloudv1.LoadBalancer) (*cloudv1.LoadBalancer, error) {
	now := b.clock.Now()
	if b.repairs.left(lb.ID, now) > 0 {
		return lb, nil
	}
	b.repairs.note(lb.ID, now)
	written, err := b.put(ctx, r.svc, specOf(lb), lb, cloudapi.WriteOptions{IfTags: r.tags})
	if cloudapi.HasCode(err, cloudv1.CodeStaleRevision) {
		return b.reread(ctx, r, lb.ID)
	}
	if err != nil {
		b.doubt(lb.ID, err)
		return lb, fmt.Errorf("repair load balancer: %w", err)
	}
	b.mirror.LoadBalancers.Put(written)
	return written, nil
}

// failed is the refusal of a load balancer that the cloud failed to provide.
func failed(lb *cloudv1.LoadBalancer, after time.Duration) error {
	text := "no reason given"
	if lb.Fault != nil {
		text = fault(lb.Fault)
	}
	return &refusal{
		reason: reasonRefused, message: fmt.Sprintf("provisioning of load balancer %s failed: %s", lb.ID, text),
		after: max(after, soon), problem: lb.Fault,
	}
}

// repairs are the attempts to repair load balancers, by their IDs.
type repairs struct {
	mu       sync.Mutex
	attempts map[string]attempts
}

type attempts struct {
	count int
	last  time.Time
}

// left returns the time until the next attempt.
func (r *repairs) left(id string, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.attempts[id]
	if a.count == 0 {
		return 0
	}
	pause := repairBase
	for range a.count - 1 {
		pause = min(2*pause, repairMax)
	}
	return max(0, pause-now.Sub(a.last))
}

func (r *repairs) note(id string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attempts == nil {
		r.attempts = map[string]attempts{}
	}
	r.attempts[id] = attempts{count: r.attempts[id].count + 1, last: now}
}

func (r *repairs) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.attempts, id)
}
