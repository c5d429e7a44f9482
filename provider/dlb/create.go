package dlb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/provider/ownership"
)

// created is a new load balancer and the job that is still running for it.
type created struct {
	lb  *cloudv1.LoadBalancer
	job string
}

// create creates the Service's load balancer exactly once: see ownership.Create. If the name is taken, it gets a
// suffix, unless its holder is a load balancer that we created earlier but that the list did not show yet: that one is
// updated.
func (b *Balancer) create(
	ctx context.Context, svc *corev1.Service, d *loadbalancer.Desired, spec cloudv1.LoadBalancerSpec,
) (*cloudv1.LoadBalancer, error) {
	if err := b.checkZones(ctx, d); err != nil {
		return nil, err
	}
	plain, unique := names(b.clusterID, spec.Tags[ownership.ClusterUID], svc)
	var taken error
	for _, name := range []string{plain, unique} {
		spec.Name = name
		made, err := b.createNamed(ctx, spec)
		if err == nil {
			if name == unique {
				b.nameTaken(svc, plain, unique)
			}
			return b.finish(ctx, made.lb, made.job)
		}
		if !cloudapi.HasCode(err, cloudv1.CodeNameTaken) {
			return nil, fmt.Errorf("create load balancer: %w", err)
		}
		ours, readErr := b.holder(ctx, err, spec)
		if readErr != nil {
			return nil, readErr
		}
		if ours != nil {
			return b.update(ctx, svc, d, spec, ours)
		}
		taken = err
	}
	return nil, namesTaken(taken, plain, unique)
}

func (b *Balancer) createNamed(ctx context.Context, spec cloudv1.LoadBalancerSpec) (created, error) {
	identity := []string{
		cloudv1.KindLoadBalancer, spec.Tags[ownership.ClusterUID], spec.Tags[ownership.ServiceUID], spec.Name,
	}
	return ownership.Create(identity,
		func(key string) (created, error) {
			lb, job, err := b.cloud.CreateLoadBalancer(ctx, spec, cloudapi.WriteOptions{IdempotencyKey: key})
			return created{lb, job}, err
		},
		func(made created) (created, error) {
			lb, err := b.cloud.LoadBalancer(ctx, made.lb.ID, cloudapi.ReadOptions{})
			if err == nil && !ownership.Bears(lb.Tags, owner(spec)) {
				err = ownership.ErrNotOurs
			}
			return created{lb, made.job}, err
		})
}

// holder returns the load balancer that has the name, if it has the Service's tags, or nil.
func (b *Balancer) holder(
	ctx context.Context, taken error, spec cloudv1.LoadBalancerSpec,
) (*cloudv1.LoadBalancer, error) {
	id := cloudapi.ResourceID(taken)
	if id == "" {
		return nil, nil
	}
	lb, err := b.cloud.LoadBalancer(ctx, id, cloudapi.ReadOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the holder of the name %s: %w", spec.Name, err)
	}
	if !ownership.Bears(lb.Tags, owner(spec)) {
		return nil, nil
	}
	return lb, nil
}

// suffixLength is the number of characters of the hash in the name's suffix.
const suffixLength = 8

// names returns the possible names of a Service's load balancer: the plain one, and the one to use if that is taken.
// They are for human readers: two Services can have the same plain name, since names of namespaces and Services may
// contain dashes.
func names(clusterID, clusterUID string, svc *corev1.Service) (plain, unique string) {
	plain = strings.Join([]string{clusterID, svc.Namespace, svc.Name}, "-")
	hash := sha256.Sum256([]byte(strings.Join([]string{clusterUID, svc.Namespace, svc.Name}, "/")))
	return plain, plain + "-" + hex.EncodeToString(hash[:])[:suffixLength]
}
