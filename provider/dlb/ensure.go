package dlb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/provider/dlb/record"
	"quaymaster.dev/provider/dlb/tree"
	"quaymaster.dev/provider/ownership"
)

// The annotations, without their prefix, that this package itself reads or validates.
const (
	keyNetworkType        = "network-type"
	keyIngressGroup       = "ingress-group"
	keySubnetID           = "subnet-id"
	keyZones              = "zones"
	keyAdoptID            = "load-balancer-id"
	keyDeletionProtection = "deletion-protection"
	keyRetainOnDelete     = "retain-on-delete"
)

// ensure does the next step towards what the Service asks for.
func (b *Balancer) ensure(ctx context.Context, r *round) error {
	if err := b.withdraw(ctx, r); err != nil || r.withdrawn {
		return err
	}
	asked, err := b.read(ctx, r.svc)
	if err != nil {
		return err
	}
	if err := valid(asked.findings); err != nil && !asked.open() {
		return err
	}
	if err := checkAllocated(r.svc); err != nil {
		return err
	}
	if r.lb, err = b.seek(ctx, r); err != nil {
		return err
	}
	if r.lb != nil {
		asked.keep(r.lb)
	}
	if err := valid(asked.findings); err != nil {
		return err
	}
	desired := loadbalancer.Build(asked.parsed.Own(), b.o.KubeProxyHealthCheckPort)
	if err := b.obey(asked, desired, r.lb); err != nil {
		return err
	}
	r.desired = desired
	spec, err := b.spec(ctx, r)
	if err != nil {
		return err
	}
	return b.perform(ctx, r, spec)
}

// withdraw ends the publication of a load balancer that was deleted because its user gave it up, and wants one again since.
// Others may get the address before this Service does, and must not wait for a valid Service.
func (b *Balancer) withdraw(ctx context.Context, r *round) (err error) {
	if !r.record.Deleting || len(r.svc.Status.LoadBalancer.Ingress) == 0 {
		return nil
	}
	if r.lb, err = b.seek(ctx, r); err != nil || r.lb != nil {
		return err
	}
	r.withdrawn = true
	return r.wait(soon, fmt.Sprintf("load balancer %s was deleted; a new one is created", r.record.ID))
}

// checkAllocated checks that the API server has allocated the ports that backends listen on, unless it will not. Load
// balancers that forward packets unchanged need none; validation refuses the others.
func checkAllocated(svc *corev1.Service) error {
	for _, p := range svc.Spec.Ports {
		if p.NodePort == 0 && !loadbalancer.NoNodePort(svc, p) {
			return &postponed{error: fmt.Errorf("port %d has no node port yet", p.Port)}
		}
	}
	if svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal && svc.Spec.HealthCheckNodePort == 0 {
		return &postponed{error: errors.New("the service has no health check node port yet")}
	}
	return nil
}

// perform decides on the next step, does it and notes the result.
func (b *Balancer) perform(ctx context.Context, r *round, spec cloudv1.LoadBalancerSpec) error {
	d, lb := r.desired, r.lb
	want := spec
	if lb != nil {
		want = b.wanted(r, spec, lb)
	}
	step, err := next(r, d, want, lb, b.tolerates(r, want, lb))
	if err != nil {
		return err
	}
	switch step {
	case stepCreate:
		err = b.unlessRefused(r, func() error {
			lb, err = b.create(ctx, r, spec)
			return b.explainZones(ctx, d, err)
		}, step, spec)
	case stepAdopt:
		return b.unlessRefused(r, func() error { return b.adopt(ctx, r, spec) }, step, spec, d.AdoptID)
	case stepRecord:
		return r.recordOriginal(lb)
	case stepDelete:
		return b.deleteAgain(ctx, r, lb)
	case stepReplace:
		// Whatever comes of the write, the load balancer may no longer be what any state of the Service asked for.
		r.record.Service = ""
		err = b.unlessRefused(r, func() error {
			lb, err = b.update(ctx, r, spec, lb)
			return b.explainZones(ctx, d, err)
		}, step, want, lb.ID, lb.Revision)
	case stepRepair:
		lb, err = b.repair(ctx, r, lb)
	case stepNone, stepWait:
		b.refused.Forget(r.svc.UID)
	}
	if lb != nil {
		// Even if the write failed, the load balancer is the Service's.
		r.lb = lb
		r.note(b.wanted(r, spec, lb), d, lb)
	}
	if err != nil {
		return err
	}
	published := r.published()
	if err := b.checkPublished(r, published); err != nil {
		return err
	}
	switch lb.ProvisioningState {
	case cloudv1.ProvisioningError:
		left, _ := b.repairs.Left(r.svc.UID, lb.ID, b.o.Clock.Now())
		return failed(lb, left)
	case cloudv1.ProvisioningActive:
		b.repairs.Forget(r.svc.UID)
		if published != nil {
			return nil
		}
		return r.wait(pendingPeriod, fmt.Sprintf("load balancer %s has no address yet", lb.ID))
	case cloudv1.ProvisioningPendingCreate, cloudv1.ProvisioningPendingUpdate, cloudv1.ProvisioningPendingDelete:
	}
	return r.wait(pendingPeriod, fmt.Sprintf("the cloud is still working on load balancer %s", lb.ID))
}

// checkPublished returns a refusal if another Service publishes an address of the load balancer: its own load balancer had
// the address, and is missing.
func (b *Balancer) checkPublished(r *round, published *corev1.LoadBalancerStatus) error {
	if published == nil || equality.Semantic.DeepEqual(published, &r.svc.Status.LoadBalancer) {
		return nil
	}
	for _, ingress := range published.Ingress {
		already := func(own corev1.LoadBalancerIngress) bool { return own.IP == ingress.IP }
		if slices.ContainsFunc(r.svc.Status.LoadBalancer.Ingress, already) {
			continue
		}
		if other := b.census.Publisher(ingress.IP); other != nil && other.UID != r.svc.UID {
			return &refusal{reason: reasonAddressInUse, after: absentPeriod, message: fmt.Sprintf(
				"load balancer %s has the address %s, which service %s/%s publishes, so it is not published; to keep it for that "+
					"service, delete this one; to give it up there, set the annotation %s on that service",
				r.lb.ID, ingress.IP, other.Namespace, other.Name, record.AnnotationAbandon)}
		}
	}
	return nil
}

// spec returns the tree that the Service asks for, with the tags of ownership.
func (b *Balancer) spec(ctx context.Context, r *round) (cloudv1.LoadBalancerSpec, error) {
	group := r.desired.IngressGroup
	waiting, cancel := context.WithTimeout(ctx, groupWait)
	defer cancel()
	groupID, err := b.o.NodeGroups.ID(waiting, group)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return cloudv1.LoadBalancerSpec{}, &postponed{
			error: fmt.Errorf("node group %s is not synced yet", group), after: soon, expected: true,
		}
	}
	if errors.Is(err, ingressnode.ErrTooManyGroups) {
		return cloudv1.LoadBalancerSpec{}, invalid(keyIngressGroup, group, err.Error())
	}
	if err != nil {
		return cloudv1.LoadBalancerSpec{}, err
	}
	return tree.Wanted(r.desired, b.o.Network, groupID, r.tags), nil
}

// update writes the tree. If the revision is stale, it reads the load balancer again, once. With an error, it returns
// the load balancer as last read.
func (b *Balancer) update(
	ctx context.Context, r *round, spec cloudv1.LoadBalancerSpec, lb *cloudv1.LoadBalancer,
) (*cloudv1.LoadBalancer, error) {
	for reread := false; ; reread = true {
		want := b.wanted(r, spec, lb)
		if reread && tree.Same(want, lb) {
			return lb, nil
		}
		updated, err := b.put(ctx, r.svc, want, lb, cloudapi.WriteOptions{IfTags: r.tags})
		if err == nil {
			b.o.Mirror.LoadBalancers.Put(ctx, updated)
			return updated, nil
		}
		if reread || !cloudapi.HasCode(err, cloudv1.CodeStaleRevision) {
			b.doubt(ctx, lb.ID, err)
			return lb, fmt.Errorf("update load balancer: %w", err)
		}
		if lb, err = b.reread(ctx, r, lb.ID); err != nil {
			return nil, err
		}
	}
}

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
		b.repairs.Count(r.svc, lb.ID, now)
		b.repairs.Begin(r.svc.UID, nil, now)
	}
	return left
}

// reread reads a load balancer that is newer than the mirror's.
func (b *Balancer) reread(ctx context.Context, r *round, id string) (*cloudv1.LoadBalancer, error) {
	lb, err := b.o.Cloud.LoadBalancer(ctx, id)
	if err != nil {
		b.doubt(ctx, id, err)
		return nil, fmt.Errorf("read load balancer %s again: %w", id, err)
	}
	b.o.Mirror.LoadBalancers.Put(ctx, lb)
	r.lb = lb
	return lb, nil
}

// doubt drops a load balancer from the mirror if the cloud's answer contradicts the mirror, so that the next call asks
// the cloud.
func (b *Balancer) doubt(ctx context.Context, id string, err error) {
	if cloudapi.IsAbsent(err) || cloudapi.HasCode(err, cloudv1.CodeTagsMismatch) {
		b.o.Mirror.LoadBalancers.Drop(ctx, id)
	}
}

// wanted returns the tree to write to an existing load balancer. Its name is the plain one, or the one with the suffix
// if the load balancer already has that.
func (b *Balancer) wanted(
	r *round, spec cloudv1.LoadBalancerSpec, lb *cloudv1.LoadBalancer,
) cloudv1.LoadBalancerSpec {
	want := tree.Settle(spec, r.desired, r.record.Applied, lb)
	plain, unique := Names(b.o.ClusterID, r.tags[ownership.ClusterUID], r.svc)
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
) (*cloudv1.LoadBalancer, error) {
	o.IfMatch, o.Base = lb.Revision, lb
	updated, _, err := b.o.Cloud.UpdateLoadBalancer(ctx, lb.ID, want, o)
	if !cloudapi.HasCode(err, cloudv1.CodeNameTaken) {
		return updated, err
	}
	plain, unique := Names(b.o.ClusterID, want.Tags[ownership.ClusterUID], svc)
	if want.Name == plain {
		want.Name = unique
		updated, _, err = b.o.Cloud.UpdateLoadBalancer(ctx, lb.ID, want, o)
	}
	switch {
	case cloudapi.HasCode(err, cloudv1.CodeNameTaken):
		return nil, namesTaken(err, plain, unique)
	case err == nil && !o.DryRun:
		b.nameTaken(svc, plain, unique)
	}
	return updated, err
}

func (b *Balancer) nameTaken(svc *corev1.Service, plain, unique string) {
	b.o.Recorder.Eventf(svc, corev1.EventTypeNormal, "LoadBalancerNameTaken",
		"Name %q is taken in the cloud; the load balancer is named %q", plain, unique)
}

// explainZones names the zones that exist, if the cloud rejects those of the Service.
func (b *Balancer) explainZones(ctx context.Context, d *loadbalancer.Desired, err error) error {
	ofZones := func(f cloudv1.ProblemField) bool { return strings.HasPrefix(f.Pointer, "/zones/") }
	if !cloudapi.HasCode(err, cloudv1.CodeInvalid) || !slices.ContainsFunc(cloudapi.ProblemOf(err).Errors, ofZones) {
		return err
	}
	list, unread := b.o.Cloud.Zones(ctx, cloudapi.ListOptions{})
	if unread != nil {
		return err
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
	return err
}
