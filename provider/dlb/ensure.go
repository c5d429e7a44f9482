package dlb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/provider/ownership"
)

// The annotations, without their prefix, that this package itself reads or validates.
const (
	keyNetworkType        = "network-type"
	keySubnetID           = "subnet-id"
	keyZones              = "zones"
	keyAdoptID            = "load-balancer-id"
	keyDeletionProtection = "deletion-protection"
	keyRetainOnDelete     = "retain-on-delete"
)

// EnsureLoadBalancer creates or updates the Service's load balancer. It ignores the nodes: pools refer to node groups.
// If the Service's annotations are invalid, the load balancer is kept as last configured.
func (b *Balancer) EnsureLoadBalancer(
	ctx context.Context, _ string, svc *corev1.Service, _ []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	if !b.reviewer.Owned(svc) {
		return nil, cloudprovider.ImplementedElsewhere
	}
	published, err := b.ensureAndReport(ctx, svc)
	b.overview.note(svc, err)
	return published, err
}

func (b *Balancer) ensureAndReport(ctx context.Context, svc *corev1.Service) (*corev1.LoadBalancerStatus, error) {
	asked, err := b.read(ctx, svc)
	if err != nil {
		return nil, err
	}
	lb, err := b.ensure(ctx, asked)
	if err != nil {
		return nil, b.report(ctx, svc, err)
	}
	published, err := status(asked.desired, lb)
	if err != nil {
		return nil, cloudproviderapi.NewRetryError(err.Error(), retryAfter)
	}
	message := fmt.Sprintf("load balancer %s (%s) is configured as requested", lb.Name, lb.ID)
	if err := b.conditions.set(ctx, svc, metav1.ConditionTrue, reasonConfigured, message); err != nil {
		return nil, err
	}
	return published, nil
}

func (b *Balancer) ensure(ctx context.Context, asked *order) (*cloudv1.LoadBalancer, error) {
	svc := asked.svc
	if err := asked.valid(); err != nil && !asked.open() {
		return nil, err
	}
	if err := checkAllocated(svc); err != nil {
		return nil, err
	}
	lb, err := b.find(ctx, svc)
	if err != nil {
		return nil, err
	}
	if lb != nil {
		asked.keep(lb)
	}
	if err := asked.valid(); err != nil {
		return nil, err
	}
	if err := b.obey(asked, lb); err != nil {
		return nil, err
	}
	d := asked.desired
	adopt := d.AdoptID != "" && (lb == nil || lb.ID != d.AdoptID)
	if adopt && lb != nil {
		return nil, invalid(keyAdoptID, d.AdoptID,
			fmt.Sprintf("the service already has load balancer %s; remove the annotation or create a new service", lb.ID))
	}
	spec, err := b.spec(ctx, svc, d)
	if err != nil {
		return nil, err
	}
	if adopt {
		if lb, err = b.adopt(ctx, svc, d, spec); err != nil {
			return nil, err
		}
	}
	if lb == nil {
		lb, err = b.create(ctx, svc, d, spec)
	} else {
		lb, err = b.update(ctx, svc, d, spec, lb)
	}
	if err != nil {
		return nil, err
	}
	switch lb.ProvisioningState {
	case cloudv1.ProvisioningActive:
	case cloudv1.ProvisioningPendingCreate, cloudv1.ProvisioningPendingUpdate, cloudv1.ProvisioningPendingDelete:
		return nil, pending(lb)
	case cloudv1.ProvisioningError:
		text := "no reason given"
		if lb.Fault != nil {
			text = fault(lb.Fault)
		}
		return nil, &refusal{
			reason: reasonRefused, message: fmt.Sprintf("provisioning of load balancer %s failed: %s", lb.ID, text),
		}
	}
	return lb, nil
}

// spec returns the tree that the Service asks for, with the tags of ownership.
func (b *Balancer) spec(
	ctx context.Context, svc *corev1.Service, d *loadbalancer.Desired,
) (cloudv1.LoadBalancerSpec, error) {
	groupID, err := b.groupID(ctx, d.IngressGroup)
	if err != nil {
		return cloudv1.LoadBalancerSpec{}, err
	}
	tags, err := b.cluster.ServiceTags(ctx, svc)
	if err != nil {
		return cloudv1.LoadBalancerSpec{}, err
	}
	maps.Copy(tags, d.Tags)
	return cloudv1.LoadBalancerSpec{Tags: tags, LoadBalancerFields: tree(d, b.network, groupID)}, nil
}

func (b *Balancer) groupID(ctx context.Context, group string) (string, error) {
	waiting, cancel := context.WithTimeout(ctx, b.wait)
	defer cancel()
	id, err := b.groups.ID(waiting, group)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return "", cloudproviderapi.NewRetryError(fmt.Sprintf("node group %s is not synced yet", group), retryAfter)
	}
	return id, err
}

// update writes the tree if it differs. If the revision is stale, it reads the load balancer again, once.
func (b *Balancer) update(
	ctx context.Context, svc *corev1.Service, d *loadbalancer.Desired, spec cloudv1.LoadBalancerSpec,
	lb *cloudv1.LoadBalancer,
) (*cloudv1.LoadBalancer, error) {
	if lb.ProvisioningState == cloudv1.ProvisioningPendingDelete {
		return nil, cloudproviderapi.NewRetryError(fmt.Sprintf("load balancer %s is being deleted", lb.ID), retryAfter)
	}
	for reread := false; ; reread = true {
		want := b.wanted(svc, spec, d, lb)
		if same(want, lb) {
			return lb, nil
		}
		if err := b.checkZones(ctx, d); err != nil {
			return nil, err
		}
		updated, job, err := b.put(ctx, svc, want, lb, cloudapi.WriteOptions{IfTags: owner(want)})
		if err == nil {
			return b.finish(ctx, updated, job)
		}
		if reread || !cloudapi.HasCode(err, cloudv1.CodeStaleRevision) {
			return nil, fmt.Errorf("update load balancer: %w", err)
		}
		if lb, err = b.cloud.LoadBalancer(ctx, lb.ID, cloudapi.ReadOptions{}); err != nil {
			return nil, err
		}
	}
}

// wanted returns the tree to write to an existing load balancer. Its name is the plain one, or the one with the suffix
// if the load balancer already has that.
func (b *Balancer) wanted(
	svc *corev1.Service, spec cloudv1.LoadBalancerSpec, d *loadbalancer.Desired, lb *cloudv1.LoadBalancer,
) cloudv1.LoadBalancerSpec {
	want := settle(spec, d, lb)
	plain, unique := names(b.clusterID, spec.Tags[ownership.ClusterUID], svc)
	want.Name = plain
	if lb.Name == unique {
		want.Name = unique
	}
	return want
}

// put replaces a tree. If the name is taken, it gets the suffix.
func (b *Balancer) put(
	ctx context.Context, svc *corev1.Service, want cloudv1.LoadBalancerSpec, lb *cloudv1.LoadBalancer,
	o cloudapi.WriteOptions,
) (*cloudv1.LoadBalancer, string, error) {
	o.IfMatch = lb.Revision
	updated, job, err := b.cloud.UpdateLoadBalancer(ctx, lb.ID, want, o)
	if !cloudapi.HasCode(err, cloudv1.CodeNameTaken) {
		return updated, job, err
	}
	plain, unique := names(b.clusterID, want.Tags[ownership.ClusterUID], svc)
	if want.Name == plain {
		want.Name = unique
		updated, job, err = b.cloud.UpdateLoadBalancer(ctx, lb.ID, want, o)
	}
	switch {
	case cloudapi.HasCode(err, cloudv1.CodeNameTaken):
		return nil, "", namesTaken(err, plain, unique)
	case err == nil && !o.DryRun:
		b.nameTaken(svc, plain, unique)
	}
	return updated, job, err
}

// owner returns the tags that a write requires, so that it can only change the Service's own load balancer.
func owner(spec cloudv1.LoadBalancerSpec) map[string]string {
	return map[string]string{
		ownership.ClusterUID: spec.Tags[ownership.ClusterUID],
		ownership.ServiceUID: spec.Tags[ownership.ServiceUID],
	}
}

func (b *Balancer) nameTaken(svc *corev1.Service, plain, unique string) {
	b.recorder.Eventf(svc, corev1.EventTypeNormal, "LoadBalancerNameTaken",
		"Name %q is taken in the cloud; the load balancer is named %q", plain, unique)
}

// checkZones checks with the cloud that the zones exist.
func (b *Balancer) checkZones(ctx context.Context, d *loadbalancer.Desired) error {
	if len(d.Zones) == 0 {
		return nil
	}
	list, err := b.cloud.Zones(ctx, cloudapi.ListOptions{})
	if err != nil {
		return fmt.Errorf("check zones: %w", err)
	}
	var known []string
	for _, zone := range list.Items {
		known = append(known, zone.ID)
	}
	slices.Sort(known)
	for _, zone := range d.Zones {
		if !slices.Contains(known, zone) {
			return invalid(keyZones, zone, "must be one of the cloud's zones: "+strings.Join(known, ", "))
		}
	}
	return nil
}
