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

// adopt makes the load balancer that the Service names its own, if its owner offers it by a tag and it can become what
// the Service asks for. The latter is tried before it is taken: one that stays as it is must not be ours, to be deleted
// with the Service.
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
	offer := map[string]string{ownership.Adopt: strings.Join([]string{spec.Tags[ownership.ClusterUID], svc.Namespace, svc.Name}, "/")}
	if !ownership.Bears(lb.Tags, offer) {
		return nil, invalid(keyAdoptID, d.AdoptID, fmt.Sprintf("the load balancer's owner must set its tag %s=%s",
			ownership.Adopt, offer[ownership.Adopt]))
	}
	for _, key := range []string{ownership.ClusterUID, ownership.ServiceUID} {
		if owner, owned := lb.Tags[key]; owned {
			return nil, invalid(keyAdoptID, d.AdoptID, fmt.Sprintf("the load balancer belongs to another service: its tag %s is %s", key, owner))
		}
	}
	if err := b.checkZones(ctx, d); err != nil {
		return nil, err
	}
	if err := b.tryOut(ctx, svc, b.wanted(svc, spec, d, lb), lb, offer); err != nil {
		return nil, err
	}
	adopted, job, err := b.cloud.AdoptLoadBalancer(ctx, lb.ID, owner(spec), cloudapi.WriteOptions{IfMatch: lb.Revision, IfTags: offer})
	if err != nil {
		return nil, fmt.Errorf("adopt load balancer: %w", err)
	}
	b.recorder.Eventf(svc, corev1.EventTypeNormal, "AdoptedLoadBalancer", "Adopted load balancer %s (%s)", lb.Name, lb.ID)
	return b.finish(ctx, adopted, job)
}

// tryOut asks the cloud whether it would make the load balancer what the Service asks for.
func (b *Balancer) tryOut(
	ctx context.Context, svc *corev1.Service, want cloudv1.LoadBalancerSpec, lb *cloudv1.LoadBalancer, offer map[string]string,
) error {
	_, _, err := b.put(ctx, svc, want, lb, cloudapi.WriteOptions{IfTags: offer, DryRun: true})
	var answer *cloudapi.Error
	switch {
	case err == nil:
		return nil
	case cloudapi.HasCode(err, cloudv1.CodeInvalid, cloudv1.CodeUnsupported) && errors.As(err, &answer):
		return invalid(keyAdoptID, lb.ID, "the load balancer cannot become what the service asks for: "+fault(answer.Problem))
	}
	return fmt.Errorf("try out load balancer to adopt: %w", err)
}
