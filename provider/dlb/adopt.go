package dlb

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/provider/cloudapi"
	"quaymaster.dev/provider/ownership"
)

// adopt makes the load balancer that the Service names its own, if its owner offers it by a tag. has is the one that the
// Service has already, or nil.
func (b *Balancer) adopt(
	ctx context.Context, svc *corev1.Service, d *loadbalancer.Desired, has *cloudapi.LoadBalancer,
) (*cloudapi.LoadBalancer, error) {
	if has != nil {
		return nil, invalid(keyAdoptID, d.AdoptID, fmt.Sprintf("the service has load balancer %s; remove the annotation, or create a new service", has.ID))
	}
	uid, err := b.cluster.UID(ctx)
	if err != nil {
		return nil, err
	}
	lb, err := b.cloud.LoadBalancer(ctx, d.AdoptID, cloudapi.ReadOptions{})
	if cloudapi.IsNotFound(err) || cloudapi.HasCode(err, cloudapi.CodeResourceGone) {
		return nil, invalid(keyAdoptID, d.AdoptID, "the cloud has no such load balancer")
	}
	if err != nil {
		return nil, fmt.Errorf("read load balancer to adopt: %w", err)
	}
	offer := map[string]string{ownership.Adopt: strings.Join([]string{uid, svc.Namespace, svc.Name}, "/")}
	if !ownership.Bears(lb.Tags, offer) {
		return nil, invalid(keyAdoptID, d.AdoptID, fmt.Sprintf("the load balancer's owner must set its tag %s=%s",
			ownership.Adopt, offer[ownership.Adopt]))
	}
	for _, key := range []string{ownership.ClusterUID, ownership.ServiceUID} {
		if owner, owned := lb.Tags[key]; owned {
			return nil, invalid(keyAdoptID, d.AdoptID, fmt.Sprintf("the load balancer belongs to another service: its tag %s is %s", key, owner))
		}
	}
	tags, err := b.cluster.ServiceTags(ctx, svc)
	if err != nil {
		return nil, err
	}
	adopted, job, err := b.cloud.AdoptLoadBalancer(ctx, lb.ID, tags, cloudapi.WriteOptions{IfMatch: lb.Revision, IfTags: offer})
	if err != nil {
		return nil, fmt.Errorf("adopt load balancer: %w", err)
	}
	b.recorder.Eventf(svc, corev1.EventTypeNormal, "AdoptedLoadBalancer", "Adopted load balancer %s (%s)", lb.Name, lb.ID)
	return b.finish(ctx, adopted, job)
}
