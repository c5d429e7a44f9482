// Package census compares what the Services of a cluster publish with the load balancers of the cloud: while many are
// missing, no load balancer is created or given up, and after the cloud may have lost some, new ones wait until that is
// known.
package census

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quaymaster.dev/internal/kube/brakes"
	"quaymaster.dev/provider/dlb/record"
	"quaymaster.dev/provider/mirror"
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
)

// missingBudget limits how many of the published load balancers may be missing at a time: more are no accident of single
// load balancers.
var missingBudget = brakes.Budget{Percent: 20}

// manyMissing is why the brake is engaged.
var manyMissing = fmt.Sprintf("more than %d %% of the cluster's load balancers are missing", missingBudget.Percent)

// ToResume is what an operator can do about missing load balancers.
const ToResume = "; if they are lost for good, run: quayctl resume " + brakes.MissingLoadBalancers

// Brake is the durable brake that stops the creation of load balancers while many are missing.
type Brake interface {
	brakes.Switch
	// Resumed reports whether an operator has resumed the work.
	Resumed(name string) bool
}

// Options holds the dependencies of a Census.
type Options struct {
	// Mirror has the load balancers of the cloud, Services the Services of the cluster.
	Mirror   *mirror.Mirror
	Services corelisters.ServiceLister
	// Owned reports whether a Service asks for a load balancer of ours.
	Owned func(*corev1.Service) bool
	// Hopeless reports whether the missing load balancer of a Service is not created again.
	Hopeless func(service types.UID) bool
	// Brake may be nil: then an engagement is not recorded, and no operator can resume the work.
	Brake Brake
	Clock clock.PassiveClock
}

// Census compares what Services publish with the load balancers of the cloud.
type Census struct {
	o Options

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

// New returns a Census. It does no I/O.
func New(o Options) *Census { return &Census{o: o} }

// count returns the counts of the last second. Services that are being deleted do not count, nor do records without an
// address: users can forge or copy them.
func (c *Census) count() tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.o.Clock.Now()
	if !c.taken.IsZero() && now.Sub(c.taken) < countEvery {
		return c.tally
	}
	c.taken, c.tally = now, tally{publishers: map[string]*corev1.Service{}, awaited: map[string]int{}}
	if !c.o.Mirror.LoadBalancers.Synced() {
		c.taken = time.Time{} // the mirror may have what the cloud has lost
	}
	services, _ := c.o.Services.List(labels.Everything()) // the lister of an informer does not fail
	for _, svc := range services {
		if len(svc.Status.LoadBalancer.Ingress) == 0 || !c.o.Owned(svc) || svc.DeletionTimestamp != nil {
			continue
		}
		for _, ingress := range svc.Status.LoadBalancer.Ingress {
			if ingress.IP != "" {
				c.publishers[ingress.IP] = svc
			}
		}
		recorded := record.Of(svc)
		if recorded.Deleting {
			continue
		}
		c.published++
		if c.mirrored(svc.UID, recorded.ID) {
			continue
		}
		c.missing++
		if needsAddress(svc) && !c.o.Hopeless(svc.UID) {
			c.awaited[svc.Namespace]++
		}
	}
	return c.tally
}

// needsAddress reports whether a Service whose load balancer is missing needs the address that it publishes again.
func needsAddress(svc *corev1.Service) bool {
	return !record.Abandoned(svc) && slices.ContainsFunc(svc.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool {
		return i.IP != ""
	})
}

// mirrored reports whether the mirror has the load balancer of a Service.
func (c *Census) mirrored(service types.UID, id string) bool {
	if len(c.o.Mirror.LoadBalancers.Find(string(service))) > 0 {
		return true
	}
	lb := c.o.Mirror.LoadBalancers.Get(id)
	return lb != nil && lb.Tags[ownership.ServiceUID] == string(service)
}

// Begin notes that all Services are known: the controllers have asked for the load balancer of one.
func (c *Census) Begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = true
}

// Audit makes new load balancers wait until the cloud has confirmed which of those that Services publish are missing, and
// has them again: the cloud may have been restored from a backup, and would give their addresses to others.
func (c *Census) Audit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.o.Clock.Now()
	c.taken, c.awaiting = time.Time{}, 0
	c.audited, c.auditedOthers = now.Add(auditFor), now.Add(auditOthersFor)
}

// Auditing reports whether new load balancers of a namespace have to wait.
func (c *Census) Auditing(namespace string) bool {
	c.mu.Lock()
	until := c.audited
	c.mu.Unlock()
	if until.IsZero() || !c.o.Mirror.LoadBalancers.Synced() {
		return !until.IsZero()
	}
	t, now := c.count(), c.o.Clock.Now()
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

// Held returns why no load balancer may be created or given up, or an empty string. It engages the brake while too many
// are missing, and releases it when none is: fewer among more are no reason, because others may have come since.
func (c *Census) Held(ctx context.Context) string {
	t := c.count()
	stop := t.missing > missingBudget.Limit(t.published)
	if c.o.Brake == nil {
		if stop {
			return manyMissing
		}
		return ""
	}
	var err error
	switch {
	case stop:
		err = c.o.Brake.Engage(ctx, brakes.MissingLoadBalancers, manyMissing)
	case t.missing == 0 || c.Resumed():
		err = c.o.Brake.Release(ctx, brakes.MissingLoadBalancers)
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not record the brake")
	}
	message, _, engaged := c.o.Brake.Engaged(brakes.MissingLoadBalancers)
	if engaged {
		// When the work is resumed, new load balancers wait for those that are created again. They are many, and an operator
		// has found that they were there.
		c.mu.Lock()
		defer c.mu.Unlock()
		c.audited = c.o.Clock.Now().Add(auditFor)
		c.auditedOthers = c.audited
	}
	return message
}

// Settle releases the brake if the danger is over. When all load balancers are back, no Service asks about it.
func (c *Census) Settle(ctx context.Context) {
	c.mu.Lock()
	ready := c.ready
	c.mu.Unlock()
	if ready {
		c.Held(ctx)
	}
}

// Publisher returns the Service that publishes an address, or nil.
func (c *Census) Publisher(address string) *corev1.Service { return c.count().publishers[address] }

// Resumed reports whether an operator has decided that load balancers may be replaced.
func (c *Census) Resumed() bool {
	return c.o.Brake != nil && c.o.Brake.Resumed(brakes.MissingLoadBalancers)
}
