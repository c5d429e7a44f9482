package dlb

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/dlb/census"
	"quaymaster.dev/provider/dlb/record"
	"quaymaster.dev/provider/ownership"
)

// create creates the Service's load balancer exactly once: see ownership.Create. If the name is taken, it gets a
// suffix, unless its holder is a load balancer that we created earlier but that the mirror did not show yet: that one
// is updated.
func (b *Balancer) create(
	ctx context.Context, r *round, spec cloudv1.LoadBalancerSpec,
) (*cloudv1.LoadBalancer, error) {
	again := spec
	again.VIPs = r.publishedVIPs(spec.VIPs)
	if err := b.mayCreate(ctx, r, again.VIPs); err != nil {
		return nil, err
	}
	lb, err := b.createUnderFreeName(ctx, r, again)
	problem := addressProblem(err)
	if problem == nil {
		return lb, err
	}
	b.missing.Settle(r.svc.UID)
	if b.census.Resumed() {
		if err := b.mayCreate(ctx, r, spec.VIPs); err != nil {
			return nil, err
		}
		return b.createUnderFreeName(ctx, r, spec)
	}
	refused := &refusal{reason: reasonMissing, cause: err, after: absentPeriod, message: fmt.Sprintf(
		"the cloud has lost load balancer %s and does not assign its address again: %s; to get a new address, %s",
		r.handle(), problem.Summary(), record.HowToAbandon(r.svc, r.handle()))}
	b.missing.Begin(r.svc.UID, refused, b.o.Clock.Now())
	return nil, refused
}

// mayCreate returns a refusal if a Service must not get a load balancer with these addresses because others are missing: if
// the cloud chooses an address, it might be one that another Service publishes.
func (b *Balancer) mayCreate(ctx context.Context, r *round, vips []cloudv1.VIP) error {
	chosen := slices.ContainsFunc(vips, func(v cloudv1.VIP) bool { return v.Address == "" })
	published := len(r.svc.Status.LoadBalancer.Ingress) > 0
	if !chosen || published && record.Abandoned(r.svc) {
		return nil
	}
	// Whether what is published may be replaced was decided before; records alone can be forged.
	if why := b.census.Held(ctx); why != "" && !published {
		return &refusal{reason: reasonMissing, after: absentPeriod, message: "no load balancer is created: " + why + census.ToResume}
	}
	if b.census.Auditing(r.svc.Namespace) {
		return &refusal{reason: reasonMissing, after: auditPeriod, message: "no load balancer is created before the cloud has " +
			"confirmed which of those that services publish are missing, and has them again: it might get one of their addresses"}
	}
	return nil
}

// publishedVIPs returns the VIPs of a new load balancer with the addresses that the Service publishes, unless it has given
// them up. Records alone do not count: users can edit them.
func (r *round) publishedVIPs(vips []cloudv1.VIP) []cloudv1.VIP {
	if record.Abandoned(r.svc) {
		return vips
	}
	vips = slices.Clone(vips)
	for _, ingress := range r.svc.Status.LoadBalancer.Ingress {
		family := cloudv1.FamilyIPv4
		if strings.Contains(ingress.IP, ":") {
			family = cloudv1.FamilyIPv6
		}
		for i := range vips {
			if vips[i].Family == family {
				vips[i].Address = ingress.IP
			}
		}
	}
	return vips
}

// addressProblem returns the problem of a creation whose address is taken or not one of the cloud's, or nil.
func addressProblem(err error) *cloudv1.Problem {
	problem := cloudapi.ProblemOf(err)
	foreign := func(f cloudv1.ProblemField) bool {
		return strings.HasPrefix(f.Pointer, "/vips/") && strings.HasSuffix(f.Pointer, "/address")
	}
	if problem != nil && (problem.Code == cloudv1.CodeAddressTaken || slices.ContainsFunc(problem.Errors, foreign)) {
		return problem
	}
	return nil
}

// createUnderFreeName creates the load balancer under the first of its names that is free.
func (b *Balancer) createUnderFreeName(
	ctx context.Context, r *round, spec cloudv1.LoadBalancerSpec,
) (*cloudv1.LoadBalancer, error) {
	plain, unique := Names(b.o.ClusterID, spec.Tags[ownership.ClusterUID], r.svc)
	var taken error
	for _, name := range []string{plain, unique} {
		spec.Name = name
		made, err := b.createNamed(ctx, r, spec)
		if err == nil {
			if name == unique {
				b.nameTaken(r.svc, plain, unique)
			}
			b.o.Mirror.LoadBalancers.Put(ctx, made)
			b.missing.Forget(r.svc.UID)
			return made, nil
		}
		if !cloudapi.HasCode(err, cloudv1.CodeNameTaken) {
			return nil, fmt.Errorf("create load balancer: %w", err)
		}
		ours, readErr := b.holder(ctx, r, err, name)
		if readErr != nil {
			return nil, readErr
		}
		if ours != nil {
			return b.update(ctx, r, spec, ours)
		}
		taken = err
	}
	return nil, namesTaken(taken, plain, unique)
}

func (b *Balancer) createNamed(
	ctx context.Context, r *round, spec cloudv1.LoadBalancerSpec,
) (*cloudv1.LoadBalancer, error) {
	identity := []string{
		cloudv1.KindLoadBalancer, spec.Tags[ownership.ClusterUID], spec.Tags[ownership.ServiceUID], spec.Name,
	}
	return ownership.Create(identity,
		func(key string) (*cloudv1.LoadBalancer, error) {
			lb, _, err := b.o.Cloud.CreateLoadBalancer(ctx, spec, cloudapi.WriteOptions{IdempotencyKey: key})
			return lb, err
		},
		func(made *cloudv1.LoadBalancer) (*cloudv1.LoadBalancer, error) {
			lb, err := b.o.Cloud.LoadBalancer(ctx, made.ID)
			if err == nil && !ownership.Bears(lb.Tags, r.tags) {
				err = ownership.ErrNotOurs
			}
			return lb, err
		})
}

// holder returns the load balancer that has the name, if it has the Service's tags, or nil. One with a published
// address is the Service's, too, but was deprived of its tags: nothing is created in its place.
func (b *Balancer) holder(
	ctx context.Context, r *round, taken error, name string,
) (*cloudv1.LoadBalancer, error) {
	id := cloudapi.ResourceID(taken)
	if id == "" {
		return nil, nil
	}
	lb, err := b.o.Cloud.LoadBalancer(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read the holder of the name %s: %w", name, err)
	}
	if ownership.Bears(lb.Tags, r.tags) {
		b.o.Mirror.LoadBalancers.Put(ctx, lb)
		return lb, nil
	}
	abandoned := r.svc.Annotations[record.AnnotationAbandon]
	for _, ingress := range r.svc.Status.LoadBalancer.Ingress {
		if ingress.IP != "" && abandoned != lb.ID && abandoned != r.handle() &&
			slices.ContainsFunc(lb.VIPs, func(vip cloudv1.VIP) bool { return vip.Address == ingress.IP }) {
			return nil, b.disown(lb, r)
		}
	}
	return nil, nil
}

// Names returns the possible names of a Service's load balancer: the plain one, and the one to use if that is taken.
// They are for human readers: two Services can have the same plain name, since names of namespaces and Services may
// contain dashes.
func Names(clusterID, clusterUID string, svc *corev1.Service) (plain, unique string) {
	plain = strings.Join([]string{clusterID, svc.Namespace, svc.Name}, "-")
	return plain, ownership.UniqueName(plain, clusterUID, svc.Namespace, svc.Name)
}
