package dlb

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/provider/ownership"
)

// remove does the next step towards the end of the Service's load balancer and reports whether the cloud has confirmed
// the end.
func (b *Balancer) remove(ctx context.Context, r *round) (gone bool, err error) {
	lb, err := b.seek(ctx, r)
	var known *refusal
	switch {
	case errors.As(err, &known) && known.disowned != nil && released(r.record, known.disowned):
		b.releasedEvent(r.svc, known.disowned)
		return true, nil
	case err != nil:
		return false, err
	case lb == nil:
		return true, nil
	}
	r.lb = lb
	r.record.ID = lb.ID
	w, err := b.wishes(ctx, r.svc)
	if err != nil {
		return false, err
	}
	for reread := false; ; reread = true {
		step, err := last(r.record, lb, w)
		if err != nil {
			return false, err
		}
		if step == removalWait {
			r.record.Deleting = true
			return false, r.waitRemoval(lb)
		}
		if lb.ProvisioningState == cloudv1.ProvisioningPendingDelete {
			r.record.Deleting = true
			if left := b.tryAgain(r, lb); left > 0 {
				return false, failed(lb, left)
			}
		}
		if err = b.performRemoval(ctx, r, step, lb); err == nil {
			return b.confirmRemoval(ctx, r, lb)
		}
		if reread || !cloudapi.HasCode(err, cloudv1.CodeStaleRevision) {
			// The next call finds out what is wrong with the load balancer.
			b.doubt(ctx, r.record.ID, err)
			return false, err
		}
		if lb, err = b.reread(ctx, r, lb.ID); err != nil {
			return false, err
		}
	}
}

// wishes reads the annotations that decide what happens in the end. The settings of a Service that is no longer a load
// balancer count as well.
func (b *Balancer) wishes(ctx context.Context, svc *corev1.Service) (wishes, error) {
	was := *svc
	was.Spec.Type, was.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, nil
	asked, err := b.read(ctx, &was)
	if apierrors.IsNotFound(err) {
		// The namespace is gone, and its policies with it. Only what the Service itself says is left.
		asked, err = b.order(b.reviewer.Parse(&was), nil), nil
	}
	if err != nil {
		return wishes{}, err
	}
	var w wishes
	if w.protected, err = flag(asked.parsed.Service, keyDeletionProtection); err != nil {
		return w, err
	}
	w.retain, err = flag(asked.parsed.Service, keyRetainOnDelete)
	return w, err
}

// flag returns the value of an annotation that decides whether the load balancer is deleted. If the value is invalid,
// nothing is deleted: a guess could destroy what was to be kept.
func flag(svc *corev1.Service, name string) (bool, error) {
	key := loadbalancer.Prefix + name
	raw, set := svc.Annotations[key]
	if !set {
		return false, nil
	}
	own, _ := library.BuiltIn().Find(loadbalancer.Catalog)
	known, _ := own.Plain(key)
	value, err := known.Parse(raw)
	if err != nil {
		return false, invalid(name, raw, "must be true or false; until then the load balancer is kept")
	}
	return value.Text == "true", nil
}

func (b *Balancer) performRemoval(ctx context.Context, r *round, step removal, lb *cloudv1.LoadBalancer) error {
	return b.unlessRefused(r, func() error { return b.writeRemoval(ctx, r, step, lb) }, "remove", step, lb.ID, lb.Revision)
}

// deleteAgain repeats a deletion that has failed, for a Service that wants a load balancer again, but not too often.
func (b *Balancer) deleteAgain(ctx context.Context, r *round, lb *cloudv1.LoadBalancer) error {
	if left := b.tryAgain(r, lb); left > 0 {
		return failed(lb, left)
	}
	if err := b.performRemoval(ctx, r, removalDelete, lb); err != nil {
		b.doubt(ctx, lb.ID, err)
		return err
	}
	return r.waitRemoval(lb)
}

func (b *Balancer) writeRemoval(ctx context.Context, r *round, step removal, lb *cloudv1.LoadBalancer) error {
	conditions := cloudapi.WriteOptions{IfMatch: lb.Revision, IfTags: r.tags}
	if step == removalRelease {
		return b.release(ctx, r, lb, conditions)
	}
	if step == removalUnprotect {
		off := false
		unprotected, _, err := b.o.Cloud.PatchLoadBalancer(
			ctx, lb.ID, cloudv1.LoadBalancerPatch{DeletionProtection: &off}, conditions)
		if err != nil {
			return fmt.Errorf("remove deletion protection: %w", err)
		}
		b.o.Mirror.LoadBalancers.Put(ctx, unprotected)
		conditions.IfMatch = unprotected.Revision
	}
	if _, err := b.o.Cloud.DeleteLoadBalancer(ctx, lb.ID, conditions); err != nil {
		return fmt.Errorf("delete load balancer: %w", err)
	}
	r.record.Deleting = true
	return nil
}

// release takes tags and backends away from a load balancer. An adopted one keeps its present name if another one has
// taken the name that it had.
func (b *Balancer) release(
	ctx context.Context, r *round, lb *cloudv1.LoadBalancer, conditions cloudapi.WriteOptions,
) error {
	conditions.Base = lb
	spec := r.record.Released(lb)
	released, _, err := b.o.Cloud.UpdateLoadBalancer(ctx, lb.ID, spec, conditions)
	if cloudapi.HasCode(err, cloudv1.CodeNameTaken) && spec.Name != lb.Name {
		spec.Name = lb.Name
		released, _, err = b.o.Cloud.UpdateLoadBalancer(ctx, lb.ID, spec, conditions)
	}
	_, adopted := lb.Tags[ownership.Original]
	switch {
	case err == nil:
		r.lb = released
		b.o.Mirror.LoadBalancers.Drop(ctx, lb.ID)
		return nil
	case adopted && cloudapi.HasCode(err, cloudv1.CodeInvalid, cloudv1.CodeUnsupported):
		return &refusal{reason: reasonRefused, cause: err, message: fmt.Sprintf("the cloud rejects load balancer %s as its "+
			"owner offered it: %s; correct that in the cloud, or, to return the load balancer as it is, without backends, remove "+
			"its tag %s", lb.ID, cloudapi.ProblemOf(err).Summary(), ownership.Original)}
	}
	return fmt.Errorf("release load balancer: %w", err)
}

// confirmRemoval reads the load balancer after the cloud has accepted its deletion or release.
func (b *Balancer) confirmRemoval(ctx context.Context, r *round, lb *cloudv1.LoadBalancer) (bool, error) {
	now, err := b.o.Cloud.LoadBalancer(ctx, lb.ID)
	switch {
	case cloudapi.IsAbsent(err):
		b.o.Mirror.LoadBalancers.Drop(ctx, lb.ID)
		return true, nil
	case err != nil:
		return false, fmt.Errorf("confirm the removal of load balancer %s: %w", lb.ID, err)
	case released(r.record, now):
		b.o.Mirror.LoadBalancers.Drop(ctx, lb.ID)
		b.releasedEvent(r.svc, now)
		return true, nil
	}
	r.lb = now
	b.o.Mirror.LoadBalancers.Put(ctx, now)
	return false, r.waitRemoval(now)
}

func (r *round) waitRemoval(lb *cloudv1.LoadBalancer) error {
	return r.wait(pendingPeriod, fmt.Sprintf("the cloud is still removing load balancer %s", lb.ID))
}

func (b *Balancer) releasedEvent(svc *corev1.Service, lb *cloudv1.LoadBalancer) {
	b.o.Recorder.Eventf(svc, corev1.EventTypeNormal, "ReleasedLoadBalancer",
		"Released load balancer %s (%s), which keeps its address", lb.Name, lb.ID)
}
