package dlb

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/provider/ownership"
)

// EnsureLoadBalancerDeleted deletes the Service's load balancer, or releases it if the Service asks for that, and
// succeeds only when the cloud has confirmed it. Other annotations may be invalid: they no longer matter.
func (b *Balancer) EnsureLoadBalancerDeleted(ctx context.Context, _ string, svc *corev1.Service) error {
	err := b.deleteAndReport(ctx, svc)
	b.overview.note(svc, err)
	return err
}

func (b *Balancer) deleteAndReport(ctx context.Context, svc *corev1.Service) error {
	lb, err := b.find(ctx, svc)
	if err != nil {
		return b.report(ctx, svc, err)
	}
	if lb != nil {
		if err := b.remove(ctx, svc, lb); err != nil {
			return b.report(ctx, svc, err)
		}
	}
	if svc.DeletionTimestamp == nil {
		return b.conditions.clear(ctx, svc)
	}
	return nil
}

func (b *Balancer) remove(ctx context.Context, svc *corev1.Service, lb *cloudv1.LoadBalancer) error {
	// The settings of a Service that is no longer a load balancer count as well.
	was := *svc
	was.Spec.Type = corev1.ServiceTypeLoadBalancer
	asked, err := b.read(ctx, &was)
	if err != nil {
		return err
	}
	protected, err := flag(asked.parsed.Service, keyDeletionProtection)
	if err != nil {
		return err
	}
	retain, err := flag(asked.parsed.Service, keyRetainOnDelete)
	if err != nil {
		return err
	}
	if protected {
		return &refusal{reason: reasonProtected, message: fmt.Sprintf(
			"load balancer %s has deletion protection, so the service is kept; to delete both, set the annotation %s to false",
			lb.ID, loadbalancer.Prefix+keyDeletionProtection)}
	}
	tags, err := b.cluster.ServiceTags(ctx, svc)
	if err != nil {
		return err
	}
	step := b.delete
	if retain {
		step = b.release
	}
	err = step(ctx, svc, lb, tags)
	if !cloudapi.HasCode(err, cloudv1.CodeStaleRevision) {
		return err
	}
	lb, err = b.cloud.LoadBalancer(ctx, lb.ID, cloudapi.ReadOptions{})
	switch {
	case cloudapi.IsAbsent(err):
		return nil
	case err != nil:
		return err
	}
	return step(ctx, svc, lb, tags)
}

// flag returns the value of an annotation that decides whether the load balancer is deleted. If the value is invalid,
// nothing is deleted: a guess could destroy what was to be kept.
func flag(svc *corev1.Service, name string) (bool, error) {
	key := loadbalancer.Prefix + name
	raw, set := svc.Annotations[key]
	if !set {
		return false, nil
	}
	own, _ := catalog.Find(loadbalancer.Catalog)
	known, _ := own.Plain(key)
	value, err := known.Parse(raw)
	if err != nil {
		return false, invalid(name, raw, "must be true or false; until then the load balancer is kept")
	}
	return value.Text == "true", nil
}

func (b *Balancer) delete(
	ctx context.Context, _ *corev1.Service, lb *cloudv1.LoadBalancer, tags map[string]string,
) error {
	if lb.DeletionProtection {
		off := false
		unprotected, job, err := b.cloud.PatchLoadBalancer(ctx, lb.ID, cloudv1.LoadBalancerPatch{DeletionProtection: &off},
			cloudapi.WriteOptions{IfMatch: lb.Revision, IfTags: tags})
		if err != nil {
			return fmt.Errorf("remove deletion protection: %w", err)
		}
		if lb, err = b.finish(ctx, unprotected, job); err != nil {
			return err
		}
	}
	if lb.ProvisioningState != cloudv1.ProvisioningPendingDelete {
		job, err := b.cloud.DeleteLoadBalancer(ctx, lb.ID, cloudapi.WriteOptions{IfMatch: lb.Revision, IfTags: tags})
		if err != nil && !cloudapi.IsAbsent(err) {
			return fmt.Errorf("delete load balancer: %w", err)
		}
		if err := b.waitJob(ctx, job); err != nil {
			return err
		}
	}
	_, err := b.cloud.LoadBalancer(ctx, lb.ID, cloudapi.ReadOptions{})
	switch {
	case cloudapi.IsAbsent(err):
		return nil
	case err != nil:
		return fmt.Errorf("confirm deletion: %w", err)
	}
	return cloudproviderapi.NewRetryError(fmt.Sprintf("load balancer %s is still being deleted", lb.ID), retryAfter)
}

// release removes our tags from the load balancer, which continues to serve.
func (b *Balancer) release(
	ctx context.Context, svc *corev1.Service, lb *cloudv1.LoadBalancer, tags map[string]string,
) error {
	patch := cloudv1.LoadBalancerPatch{Tags: map[string]*string{}}
	for key := range tags {
		patch.Tags[key] = nil
	}
	_, job, err := b.cloud.PatchLoadBalancer(ctx, lb.ID, patch, cloudapi.WriteOptions{IfMatch: lb.Revision, IfTags: tags})
	if err != nil {
		return fmt.Errorf("release load balancer: %w", err)
	}
	if err := b.waitJob(ctx, job); err != nil {
		return err
	}
	released, err := b.cloud.LoadBalancer(ctx, lb.ID, cloudapi.ReadOptions{})
	if err != nil {
		return err
	}
	for _, key := range []string{ownership.ClusterUID, ownership.ServiceUID} {
		if _, still := released.Tags[key]; still {
			return fmt.Errorf("release load balancer: %s still has the tag %s", lb.ID, key)
		}
	}
	b.recorder.Eventf(svc, corev1.EventTypeNormal, "ReleasedLoadBalancer",
		"Released load balancer %s (%s), which continues to serve", lb.Name, lb.ID)
	return nil
}
