package dlb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/dlb/census"
	"quaymaster.dev/provider/dlb/pause"
	"quaymaster.dev/provider/dlb/record"
	"quaymaster.dev/provider/ownership"
)

var errNotSynced = errors.New("the load balancers of the cloud have not been read yet")

// seek returns the load balancer of a Service, or nil if it certainly has none. The mirror suffices to find one. Before
// a recorded or published one counts as lost, the cloud must have confirmed it; see lost.
func (b *Balancer) seek(ctx context.Context, r *round) (*cloudv1.LoadBalancer, error) {
	if !b.o.Mirror.LoadBalancers.Synced() {
		why := b.o.Mirror.Err()
		err := error(&postponed{error: errNotSynced, after: soon, expected: why == nil})
		if why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
		return nil, err
	}
	id := r.record.ID
	if id == "" {
		return b.seekByTags(ctx, r)
	}
	if lb := b.o.Mirror.LoadBalancers.Get(id); lb != nil && ownership.Bears(lb.Tags, r.tags) {
		return b.sighted(r, lb)
	}
	abandoned := r.svc.Annotations[record.AnnotationAbandon] == id
	if err := b.paused(r, id); err != nil && !abandoned {
		return nil, err
	}
	lb, err := b.o.Cloud.LoadBalancer(ctx, id)
	if err != nil && !cloudapi.IsAbsent(err) {
		return nil, fmt.Errorf("read load balancer %s: %w", id, err)
	}
	if err == nil && ownership.Bears(lb.Tags, r.tags) {
		b.o.Mirror.LoadBalancers.Put(ctx, lb)
		return b.sighted(r, lb)
	}
	// A record that was edited, or not stored after a creation, does not hide the Service's load balancer.
	other, ambiguous := b.bearing(r)
	switch {
	case ambiguous != nil:
		return nil, ambiguous
	case other != nil && other.ID != id:
		return b.sighted(r, other)
	case abandoned:
		return nil, nil
	case r.inherited() && (err != nil && !r.record.Deleting || err == nil && b.foreign(lb, r.tags)):
		r.record = &record.Record{}
		return b.seekByTags(ctx, r)
	case err == nil:
		return nil, b.disown(lb, r)
	}
	b.o.Mirror.LoadBalancers.Drop(ctx, id)
	if r.record.Deleting {
		return nil, nil
	}
	return nil, b.lost(ctx, r)
}

// paused returns why nothing can be done about a load balancer, if the cloud was asked about it a moment ago and has
// reported no change since. When an operator has decided, the cloud is asked at once.
func (b *Balancer) paused(r *round, id string) error {
	now := b.o.Clock.Now()
	if _, err := b.missing.Left(r.svc.UID, id, now); err != nil && !b.census.Resumed() {
		return err
	}
	if left, err := b.disowned.Left(r.svc.UID, id, now); err != nil {
		return again(err, left)
	}
	return nil
}

// inherited reports whether the record was not written for the Service, which has published nothing: then it is a copy, or
// made up, and nothing depends on it.
func (r *round) inherited() bool {
	return len(r.svc.Status.LoadBalancer.Ingress) == 0 && r.record.Owner != string(r.svc.UID)
}

// foreign reports whether a load balancer belongs to another Service or cluster, or to none.
func (b *Balancer) foreign(lb *cloudv1.LoadBalancer, tags map[string]string) bool {
	return lb.Tags[ownership.ServiceUID] != tags[ownership.ServiceUID] &&
		(lb.Tags[ownership.ClusterUID] != tags[ownership.ClusterUID] || b.another(lb, tags) != nil)
}

// seekByTags is seek for a Service without a record.
func (b *Balancer) seekByTags(ctx context.Context, r *round) (*cloudv1.LoadBalancer, error) {
	lb, err := b.bearing(r)
	if err != nil {
		return nil, err
	}
	if lb != nil {
		return b.sighted(r, lb)
	}
	published := len(r.svc.Status.LoadBalancer.Ingress) > 0
	if !published && !r.removing {
		// The idempotency key and the name prevent a second creation.
		return nil, nil
	}
	abandoned := published && r.svc.Annotations[record.AnnotationAbandon] == r.handle()
	if err := b.paused(r, r.handle()); err != nil && !abandoned {
		return nil, err
	}
	list, err := b.o.Cloud.ListLoadBalancers(ctx, cloudapi.ListOptions{Tags: r.tags})
	if err != nil {
		return nil, fmt.Errorf("find load balancer: %w", err)
	}
	if len(list.Items) > 0 {
		found := make([]*cloudv1.LoadBalancer, len(list.Items))
		for i := range list.Items {
			found[i] = &list.Items[i]
			b.o.Mirror.LoadBalancers.Put(ctx, found[i])
		}
		lb, err := one(found)
		if err != nil {
			return nil, err
		}
		return b.sighted(r, lb)
	}
	switch {
	case abandoned:
		return nil, nil
	case published:
		return nil, b.lost(ctx, r)
	}
	return nil, b.state.Check(ctx)
}

// bearing returns the load balancer in the mirror that has the Service's tags, or nil. Several are an error because
// none may be chosen arbitrarily.
func (b *Balancer) bearing(r *round) (*cloudv1.LoadBalancer, error) {
	found := b.o.Mirror.LoadBalancers.Find(r.tags[ownership.ServiceUID])
	return one(slices.DeleteFunc(found, func(lb *cloudv1.LoadBalancer) bool { return !ownership.Bears(lb.Tags, r.tags) }))
}

func one(found []*cloudv1.LoadBalancer) (*cloudv1.LoadBalancer, error) {
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}
	ids := make([]string, len(found))
	for i := range found {
		ids[i] = found[i].ID
	}
	return nil, &refusal{reason: reasonDisowned, message: fmt.Sprintf(
		"load balancers %s all have the tags of this service; remove the tag %s from all but one",
		strings.Join(ids, ", "), ownership.ServiceUID)}
}

// sighted notes that the cloud has the Service's load balancer. If that is all that is known, nothing can be done about it.
func (b *Balancer) sighted(r *round, lb *cloudv1.LoadBalancer) (*cloudv1.LoadBalancer, error) {
	b.missing.Forget(r.svc.UID)
	b.disowned.Forget(r.svc.UID)
	if lb.Undecodable != "" {
		return nil, &refusal{reason: reasonUnreadable, message: fmt.Sprintf(
			"load balancer %s exists, but what the cloud returns cannot be read, so it is neither changed nor deleted: %s; upgrade "+
				"Quaymaster, or correct the load balancer in the cloud", lb.ID, lb.Undecodable)}
	}
	return lb, nil
}

// another returns the other Service of the cluster that a load balancer belongs to, or nil.
func (b *Balancer) another(lb *cloudv1.LoadBalancer, tags map[string]string) *corev1.Service {
	if lb.Tags[ownership.ClusterUID] != tags[ownership.ClusterUID] || lb.Tags[ownership.ServiceUID] == tags[ownership.ServiceUID] {
		return nil
	}
	services, _ := b.o.Services.List(labels.Everything()) // the lister of an informer does not fail
	for _, svc := range services {
		if string(svc.UID) == lb.Tags[ownership.ServiceUID] {
			return svc
		}
	}
	return nil
}

// disown returns the refusal of a load balancer that the Service records but that lacks its tags.
func (b *Balancer) disown(lb *cloudv1.LoadBalancer, r *round) error {
	tags := r.tags
	var lacking, instead []string
	for _, key := range []string{ownership.ClusterUID, ownership.ServiceUID} {
		value, set := lb.Tags[key]
		if value != tags[key] {
			lacking = append(lacking, key+"="+tags[key])
			if set {
				instead = append(instead, key+"="+value)
			}
		}
	}
	found, remedy := "", "set the tag in the cloud"
	if len(instead) > 0 {
		found, remedy = ", but has "+strings.Join(instead, " and "), "if no other service uses it, "+remedy
	}
	if svc := b.another(lb, tags); svc != nil {
		found += fmt.Sprintf(" of service %s/%s", svc.Namespace, svc.Name)
	}
	err := &refusal{reason: reasonDisowned, disowned: lb, message: fmt.Sprintf(
		"load balancer %s lacks the tag %s%s, so it is neither changed nor replaced; %s, or, to give up "+
			"the load balancer and its address, %s",
		lb.ID, strings.Join(lacking, " and "), found, remedy, record.HowToAbandon(r.svc, lb.ID))}
	b.disowned.Count(r.svc, lb.ID, b.o.Clock.Now())
	err.after = b.disowned.Begin(r.svc.UID, err, b.o.Clock.Now())
	return err
}

// lost returns nil if it is certain that the cloud has lost a load balancer that the Service records or publishes: the
// cloud has said so for a while, it is not degraded, and it has not lost many at once.
func (b *Balancer) lost(ctx context.Context, r *round) error {
	if err := b.state.Check(ctx); err != nil {
		b.missing.Forget(r.svc.UID)
		return err
	}
	id := r.handle()
	why := fmt.Sprintf("nothing is done before the cloud has confirmed this for %s", pause.For)
	if b.missing.Count(r.svc, id, b.o.Clock.Now()) {
		held := b.census.Held(ctx)
		if held == "" {
			return nil
		}
		why = "nothing is done: " + held + census.ToResume
	}
	err := &refusal{reason: reasonMissing, after: absentPeriod, message: fmt.Sprintf(
		"the cloud does not have load balancer %s; %s", id, why)}
	b.missing.Begin(r.svc.UID, err, b.o.Clock.Now())
	return err
}
