package dlb

import (
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/dlb/record"
	"quaymaster.dev/provider/ownership"
)

// longestOriginal limits how much of a record an adopted load balancer may take, in bytes. The API server limits all
// annotations of an object to 256 KiB.
const longestOriginal = 96 << 10

// adopt takes over the load balancer that the Service names, if its owner offers it by a tag and the cloud can change
// it to what the Service asks for. The latter is checked before the adoption: a load balancer that cannot be changed
// must not become ours. Its tree is written by the next call, when the Service has recorded the present one.
func (b *Balancer) adopt(ctx context.Context, r *round, spec cloudv1.LoadBalancerSpec) error {
	id := r.desired.AdoptID
	lb, err := b.o.Cloud.LoadBalancer(ctx, id)
	if cloudapi.IsAbsent(err) {
		return invalid(keyAdoptID, id, "the cloud has no such load balancer")
	}
	if err != nil {
		return fmt.Errorf("read load balancer to adopt: %w", err)
	}
	offer := map[string]string{
		ownership.Adopt: strings.Join([]string{r.tags[ownership.ClusterUID], r.svc.Namespace, r.svc.Name}, "/"),
	}
	if !ownership.Bears(lb.Tags, offer) {
		return invalid(keyAdoptID, id,
			fmt.Sprintf("requires the tag %s=%s on the load balancer, set by its owner", ownership.Adopt, offer[ownership.Adopt]))
	}
	for _, key := range []string{ownership.ClusterUID, ownership.ServiceUID} {
		if owner, owned := lb.Tags[key]; owned {
			return invalid(keyAdoptID, id,
				fmt.Sprintf("the load balancer belongs to another service: it has the tag %s=%s", key, owner))
		}
	}
	if err := b.rehearse(ctx, r, b.wanted(r, spec, lb), lb, offer); err != nil {
		return err
	}
	text, hash := record.Original(lb)
	if len(text) > longestOriginal {
		return invalid(keyAdoptID, id, "the load balancer is too large: the service cannot record it for its return")
	}
	tags := maps.Clone(r.tags)
	tags[ownership.Original] = hash
	adopted, _, err := b.o.Cloud.AdoptLoadBalancer(ctx, id, tags, cloudapi.WriteOptions{IfMatch: lb.Revision, IfTags: offer})
	if err != nil {
		return fmt.Errorf("adopt load balancer: %w", err)
	}
	b.o.Mirror.LoadBalancers.Put(ctx, adopted)
	b.o.Recorder.Eventf(r.svc, corev1.EventTypeNormal, "AdoptedLoadBalancer", "Adopted load balancer %s (%s)", lb.Name, id)
	return r.recordOriginal(adopted)
}

// recordOriginal records an adopted load balancer that is still as its owner offered it.
func (r *round) recordOriginal(lb *cloudv1.LoadBalancer) error {
	text, _ := record.Original(lb)
	// It is not r.lb: nothing is published before it is configured.
	r.lb = nil
	r.record = &record.Record{ID: lb.ID, Owner: string(r.svc.UID), Original: text}
	return r.wait(soon, fmt.Sprintf("load balancer %s was adopted and is to be configured next", lb.ID))
}

// rehearse sends the update as a dry run, to learn whether the cloud can change the load balancer to what the Service
// asks for.
func (b *Balancer) rehearse(
	ctx context.Context, r *round, want cloudv1.LoadBalancerSpec, lb *cloudv1.LoadBalancer, offer map[string]string,
) error {
	_, err := b.put(ctx, r.svc, want, lb, cloudapi.WriteOptions{IfTags: offer, DryRun: true})
	err = b.explainZones(ctx, r.desired, err)
	switch {
	case err == nil:
		return nil
	case cloudapi.HasCode(err, cloudv1.CodeInvalid, cloudv1.CodeUnsupported):
		return invalid(keyAdoptID, lb.ID,
			"the load balancer cannot be changed to what the service asks for: "+cloudapi.ProblemOf(err).Summary())
	}
	return fmt.Errorf("dry run of the update of the load balancer to adopt: %w", err)
}
