package dlb

import (
	"context"
	"fmt"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/dlb/tree"
)

// repair writes to a load balancer in error what it already has, so that the cloud tries again; but not too often.
func (b *Balancer) repair(ctx context.Context, r *round, lb *cloudv1.LoadBalancer) (*cloudv1.LoadBalancer, error) {
	if b.tryAgain(r, lb) > 0 {
		return lb, nil
	}
	written, err := b.put(ctx, r.svc, tree.Of(lb), lb, cloudapi.WriteOptions{IfTags: r.tags})
	if cloudapi.HasCode(err, cloudv1.CodeStaleRevision) {
		return b.reread(ctx, r, lb.ID)
	}
	if err != nil {
		b.doubt(ctx, lb.ID, err)
		return lb, fmt.Errorf("repair load balancer: %w", err)
	}
	b.o.Mirror.LoadBalancers.Put(ctx, written)
	return written, nil
}

// tryAgain begins another attempt at what the cloud has failed to do with a load balancer, and returns 0; or it returns
// the time until the next attempt.
func (b *Balancer) tryAgain(r *round, lb *cloudv1.LoadBalancer) time.Duration {
	now := b.o.Clock.Now()
	left, _ := b.repairs.Left(r.svc.UID, lb.ID, now)
	if left == 0 {
		b.repairs.Count(r.svc.UID, lb.ID, now)
		b.repairs.Begin(r.svc.UID, nil, now)
	}
	return left
}

// failed is the refusal of a load balancer that the cloud failed to provide or to delete.
func failed(lb *cloudv1.LoadBalancer, after time.Duration) error {
	text := "no reason given"
	if lb.Fault != nil {
		text = lb.Fault.Summary()
	}
	if lb.ProvisioningState == cloudv1.ProvisioningPendingDelete {
		return &refusal{
			reason: reasonRefused, message: fmt.Sprintf("deletion of load balancer %s failed: %s", lb.ID, text), after: max(after, soon),
		}
	}
	return &refusal{
		reason: reasonRefused, message: fmt.Sprintf("provisioning of load balancer %s failed: %s", lb.ID, text),
		after: max(after, soon), problem: lb.Fault,
	}
}
