package dlb

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/kube/brakes"
	"quaymaster.dev/provider/ownership"
)

const (
	// countEvery limits how often Services are counted.
	countEvery = time.Second
	// auditFor is how long new load balancers wait for missing ones: one whose absence cannot be confirmed, or that cannot be
	// created again, must not stop them for good.
	auditFor = 10 * time.Minute
	// auditOthersFor is how long they wait for those of other namespaces if these do not become fewer, which is enough to
	// confirm that they are missing: users could forge what their Services publish, so that the cloud seems to have lost it.
	auditOthersFor = 3 * time.Minute
	// auditPeriod is how often it is looked whether that is over, without a call of the cloud.
	auditPeriod = 5 * time.Second
)

// missingBudget limits how many of the published load balancers may be missing at a time: more are no accident of single
// load balancers.
var missingBudget = brakes.Budget{Percent: 20}

// manyMissing is why the brake is engaged.
var manyMissing = fmt.Sprintf("more than %d %% of the cluster's load balancers are missing", missingBudget.Percent)

// toResume is what an operator can do about missing load balancers.
const toResume = "; if they are lost for good, run: quayctl resume " + brakes.MissingLoadBalancers

// census compares what Services publish with the load balancers of the cloud.
type census struct {
	mu    sync.Mutex
	taken time.Time
	tally
	// ready is true when all Services are known: the controllers have asked for the load balancer of one.
	ready bool
	// audited is the time until which new load balancers wait for the missing ones of their namespace, and auditedOthers that
	// for those of other namespaces.
	audited, auditedOthers time.Time
	// awaiting is how many were awaited when that was last asked.
	awaiting int
}

// tally is the result of a census.
type tally struct {
	// published is the number of Services that publish addresses, missing that of those whose load balancers the cloud does
	// not have.
	published, missing int
	// awaited is the number of those that may still be created again with these addresses, by namespace.
	awaited map[string]int
	// publishers maps addresses to the Services that publish them.
	publishers map[string]*corev1.Service
}

// count returns the counts of the last second. Services that are being deleted do not count, nor do records without an
// address: users can forge or copy them.
func (b *Balancer) count() tally {
	c := &b.census
	c.mu.Lock()
	defer c.mu.Unlock()
	now := b.clock.Now()
	if !c.taken.IsZero() && now.Sub(c.taken) < countEvery {
		return c.tally
	}
	c.taken, c.tally = now, tally{publishers: map[string]*corev1.Service{}, awaited: map[string]int{}}
	if !b.mirror.LoadBalancers.Synced() {
		c.taken = time.Time{} // the mirror may have what the cloud has lost
	}
	services, err := b.services.List(labels.Everything())
	if err != nil {
		return c.tally // the lister of an informer does not fail
	}
	for _, svc := range services {
		record := recordOf(svc)
		if len(svc.Status.LoadBalancer.Ingress) == 0 || !b.reviewer.Owned(svc) || svc.DeletionTimestamp != nil {
			continue
		}
		for _, ingress := range svc.Status.LoadBalancer.Ingress {
			if ingress.IP != "" {
				c.publishers[ingress.IP] = svc
			}
		}
		if record.Deleting {
			continue
		}
		c.published++
		if b.mirrored(svc.UID, record.ID) {
			continue
		}
		c.missing++
		if needsAddress(svc) && !b.missing.settled(svc.UID) && !b.disowned.noted(svc.UID) {
			c.awaited[svc.Namespace]++
		}
	}
	return c.tally
}

// needsAddress reports whether a Service whose load balancer is missing needs the address that it publishes again.
func needsAddress(svc *corev1.Service) bool {
	return !abandons(svc) && slices.ContainsFunc(svc.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool {
		return i.IP != ""
	})
}

// mirrored reports whether the mirror has the load balancer of a Service.
func (b *Balancer) mirrored(service types.UID, id string) bool {
	if len(b.mirror.LoadBalancers.Find(string(service))) > 0 {
		return true
	}
	lb := b.mirror.LoadBalancers.Get(id)
	return lb != nil && lb.Tags[ownership.ServiceUID] == string(service)
}

func (c *census) complete() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ready
}

func (c *census) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = true
}

// Audit makes new load balancers wait until the cloud has confirmed which of those that Services publish are missing, and
// has them again: the cloud may have been restored from a backup, and would give their addresses to others.
func (b *Balancer) Audit(*cloudv1.Meta) {
	b.missing.clear()
	b.census.mu.Lock()
	defer b.census.mu.Unlock()
	now := b.clock.Now()
	b.census.taken, b.census.awaiting = time.Time{}, 0
	b.census.audited, b.census.auditedOthers = now.Add(auditFor), now.Add(auditOthersFor)
}

// auditing reports whether new load balancers of a namespace have to wait.
func (b *Balancer) auditing(namespace string) bool {
	c := &b.census
	c.mu.Lock()
	until := c.audited
	c.mu.Unlock()
	if until.IsZero() || !b.mirror.LoadBalancers.Synced() {
		return !until.IsZero()
	}
	t, now := b.count(), b.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.audited.Equal(until) {
		return !c.audited.IsZero() // what was counted says nothing about an audit that has begun meanwhile
	}
	if len(t.awaited) == 0 || !now.Before(until) {
		c.audited = time.Time{}
		return false
	}
	awaiting := 0
	for _, n := range t.awaited {
		awaiting += n
	}
	longer := now.Add(auditOthersFor)
	if awaiting < c.awaiting && now.Before(c.auditedOthers) && longer.After(c.auditedOthers) {
		c.auditedOthers = longer
	}
	c.awaiting = awaiting
	return t.awaited[namespace] > 0 || now.Before(c.auditedOthers)
}

// Brake is the durable brake that stops the creation of load balancers while many are missing.
type Brake interface {
	// Engaged reports whether the work of a brake must stop, since when and why.
	Engaged(name string) (message string, since time.Time, engaged bool)
	// Engage stops the work. It has no effect while an operator has resumed the work.
	Engage(ctx context.Context, name, message string) error
	// Release ends an engagement.
	Release(ctx context.Context, name string) error
	// Resumed reports whether an operator has resumed the work.
	Resumed(name string) bool
}

// held returns why no load balancer may be created or given up, or an empty string. It engages the brake while too many
// are missing, and releases it when none is: fewer among more are no reason, because others may have come since.
func (b *Balancer) held(ctx context.Context) string {
	t := b.count()
	stop := t.missing > missingBudget.Limit(t.published)
	if b.brake == nil {
		if stop {
			return manyMissing
		}
		return ""
	}
	var err error
	switch {
	case stop:
		err = b.brake.Engage(ctx, brakes.MissingLoadBalancers, manyMissing)
	case t.missing == 0 || b.resumed():
		err = b.brake.Release(ctx, brakes.MissingLoadBalancers)
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not record the brake")
	}
	message, _, engaged := b.brake.Engaged(brakes.MissingLoadBalancers)
	if engaged {
		// When the work is resumed, new load balancers wait for those that are created again. They are many, and an operator
		// has found that they were there.
		b.census.mu.Lock()
		defer b.census.mu.Unlock()
		b.census.audited = b.clock.Now().Add(auditFor)
		b.census.auditedOthers = b.census.audited
	}
	return message
}

// settleBrake releases the brake if the danger is over. When all load balancers are back, no Service asks about it.
func (b *Balancer) settleBrake(ctx context.Context) {
	if b.census.complete() {
		b.held(ctx)
	}
}

// mayCreate returns a refusal if a Service must not get a load balancer with these addresses because others are missing: if
// the cloud chooses an address, it might be one that another Service publishes.
func (b *Balancer) mayCreate(ctx context.Context, r *round, vips []cloudv1.VIP) error {
	chosen := slices.ContainsFunc(vips, func(v cloudv1.VIP) bool { return v.Address == "" })
	published := len(r.svc.Status.LoadBalancer.Ingress) > 0
	if !chosen || published && abandons(r.svc) {
		return nil
	}
	// Whether what is published may be replaced was decided before; records alone can be forged.
	if why := b.held(ctx); why != "" && !published {
		return &refusal{reason: reasonMissing, after: absentPeriod, message: "no load balancer is created: " + why + toResume}
	}
	if b.auditing(r.svc.Namespace) {
		return &refusal{reason: reasonMissing, after: auditPeriod, message: "no load balancer is created before the cloud has " +
			"confirmed which of those that services publish are missing, and has them again: it might get one of their addresses"}
	}
	return nil
}

// resumed reports whether an operator has decided that load balancers may be replaced.
func (b *Balancer) resumed() bool {
	return b.brake != nil && b.brake.Resumed(brakes.MissingLoadBalancers)
}

// checkPublished returns a refusal if another Service publishes an address of the load balancer: its own load balancer had
// the address, and is missing.
func (b *Balancer) checkPublished(r *round, published *corev1.LoadBalancerStatus) error {
	if published == nil || equality.Semantic.DeepEqual(published, &r.svc.Status.LoadBalancer) {
		return nil
	}
	publishers := b.count().publishers
	for _, ingress := range published.Ingress {
		already := func(own corev1.LoadBalancerIngress) bool { return own.IP == ingress.IP }
		if slices.ContainsFunc(r.svc.Status.LoadBalancer.Ingress, already) {
			continue
		}
		if other := publishers[ingress.IP]; other != nil && other.UID != r.svc.UID {
			return &refusal{reason: reasonAddressInUse, after: absentPeriod, message: fmt.Sprintf(
				"load balancer %s has the address %s, which service %s/%s publishes, so it is not published; to keep it for that "+
					"service, delete this one; to give it up there, set the annotation %s on that service",
				r.lb.ID, ingress.IP, other.Namespace, other.Name, AnnotationAbandon)}
		}
	}
	return nil
}
