package dlb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/provider/ownership"
)

// adopt takes over the load balancer that the Service names, if its owner offers it by a tag and the cloud can change
// it to what the Service asks for. The latter is checked before the adoption: a load balancer that cannot be changed
// must not become ours, because it would be deleted with the Service.
func (b *Balancer) adopt(
	ctx context.Context, svc *corev1.Service, d *loadbalancer.Desired, spec cloudv1.LoadBalancerSpec,
) (*cloudv1.LoadBalancer, error) {
	lb, err := b.cloud.LoadBalancer(ctx, d.AdoptID, cloudapi.ReadOptions{})
	if cloudapi.IsAbsent(err) {
		return nil, invalid(keyAdoptID, d.AdoptID, "the cloud has no such load balancer")
	}
	if err != nil {
		return nil, fmt.Errorf("read load balancer to adopt: %w", err)
	}
	offer := map[string]string{
		ownership.Adopt: strings.Join([]string{spec.Tags[ownership.ClusterUID], svc.Namespace, svc.Name}, "/"),
	}
	if !ownership.Bears(lb.Tags, offer) {
		return nil, invalid(keyAdoptID, d.AdoptID,
			fmt.Sprintf("requires the tag %s=%s on the load balancer, set by its owner", ownership.Adopt, offer[ownership.Adopt]))
	}
	for _, key := range []string{ownership.ClusterUID, ownership.ServiceUID} {
		if owner, owned := lb.Tags[key]; owned {
			return nil, invalid(keyAdoptID, d.AdoptID,
				fmt.Sprintf("the load balancer belongs to another service: it has the tag %s=%s", key, owner))
		}
	}
	if err := b.checkZones(ctx, d); err != nil {
		return nil, err
	}
	if err := b.rehearse(ctx, svc, b.wanted(svc, spec, d, lb), lb, offer); err != nil {
		return nil, err
	}
	adopted, job, err := b.cloud.AdoptLoadBalancer(
		ctx, lb.ID, owner(spec), cloudapi.WriteOptions{IfMatch: lb.Revision, IfTags: offer},
	)
	if err != nil {
		return nil, fmt.Errorf("adopt load balancer: %w", err)
	}
	b.recorder.Eventf(svc, corev1.EventTypeNormal, "AdoptedLoadBalancer", "Adopted load balancer %s (%s)", lb.Name, lb.ID)
	return b.finish(ctx, adopted, job)
}

// rehearse sends the update as a dry run, to learn whether the cloud can change the load balancer to what the Service
// asks for.
func (b *Balancer) rehearse(
	ctx context.Context, svc *corev1.Service, want cloudv1.LoadBalancerSpec, lb *cloudv1.LoadBalancer,
	offer map[string]string,
) error {
	_, _, err := b.put(ctx, svc, want, lb, cloudapi.WriteOptions{IfTags: offer, DryRun: true})
	var answer *cloudapi.Error
	switch {
	case err == nil:
		return nil
	case cloudapi.HasCode(err, cloudv1.CodeInvalid, cloudv1.CodeUnsupported) && errors.As(err, &answer):
		return invalid(keyAdoptID, lb.ID,
			"the load balancer cannot be changed to what the service asks for: "+fault(answer.Problem))
	}
	return fmt.Errorf("dry run of the update of the load balancer to adopt: %w", err)
}
