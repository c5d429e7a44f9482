package dlb

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/brakes"
	"quaymaster.dev/provider/ownership"
)

const (
	// More missing load balancers than this share, and than one, are no accident of single load balancers.
	missingShare = 0.2
	missingMin   = 2
	// countEvery limits how often Services are counted.
	countEvery = time.Second
)

// tooMany reports whether so many recorded load balancers are missing that none may be replaced or given up.
func tooMany(missing, recorded int) bool {
	return missing >= missingMin && float64(missing) > missingShare*float64(recorded)
}

// census counts the load balancers whose addresses Services publish, and those among them that the cloud does not have.
type census struct {
	mu    sync.Mutex
	taken time.Time
	tally
	// ready is true when all Services are known: the controllers have asked for the load balancer of one.
	ready bool
}

// tally is the result of a census. leaving are those of the missing whose Services are being deleted and did not miss
// them before: they may be gone because of that.
type tally struct{ missing, leaving, published int }

// count returns the counts of the last second. Records do not count without an address: users can forge or copy them.
func (b *Balancer) count() tally {
	c := &b.census
	c.mu.Lock()
	defer c.mu.Unlock()
	now := b.clock.Now()
	if !c.taken.IsZero() && now.Sub(c.taken) < countEvery {
		return c.tally
	}
	c.taken, c.tally = now, tally{}
	services, err := b.services.List(labels.Everything())
	if err != nil {
		return tally{} // the lister of an informer does not fail
	}
	for _, svc := range services {
		record := recordOf(svc)
		if len(svc.Status.LoadBalancer.Ingress) == 0 || !b.reviewer.Owned(svc) || record.Deleting {
			continue
		}
		c.published++
		there := len(b.mirror.LoadBalancers.Find(string(svc.UID))) > 0
		if lb := b.mirror.LoadBalancers.Get(record.ID); lb != nil {
			there = there || lb.Tags[ownership.ServiceUID] == string(svc.UID)
		}
		if there {
			continue
		}
		c.missing++
		if svc.DeletionTimestamp != nil && !b.missing.noted(svc.UID) {
			c.leaving++
		}
	}
	return c.tally
}

// Brake is the durable brake that stops the replacement of load balancers while many are missing.
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

// manyMissing is why the brake is engaged.
var manyMissing = fmt.Sprintf("more than %d %% of the cluster's load balancers are missing", int(missingShare*100))

// held engages or releases the brake, and returns why no load balancer may be replaced or given up, or an empty string.
func (b *Balancer) held(ctx context.Context) string {
	t := b.count()
	stop := tooMany(t.missing, t.published)
	if b.brake == nil {
		if stop {
			return manyMissing
		}
		return ""
	}
	if stop {
		if err := b.brake.Engage(ctx, brakes.MissingLoadBalancers, manyMissing); err != nil {
			klog.FromContext(ctx).Error(err, "Could not record the brake")
		}
	}
	return b.engaged(ctx, t)
}

// engaged returns why the brake is engaged, or an empty string. It is released when no load balancer is missing any
// more. That there are fewer among more is no reason: others may have come, perhaps in another cloud.
func (b *Balancer) engaged(ctx context.Context, t tally) string {
	message, _, engaged := b.brake.Engaged(brakes.MissingLoadBalancers)
	over := t.missing == 0 && engaged || b.resumed() && !tooMany(t.missing, t.published)
	if !over {
		return message
	}
	if err := b.brake.Release(ctx, brakes.MissingLoadBalancers); err != nil {
		klog.FromContext(ctx).Error(err, "Could not record that the brake is released")
	}
	message, _, _ = b.brake.Engaged(brakes.MissingLoadBalancers)
	return message
}

// settleBrake releases the brake if the danger is over. When all load balancers are back, no Service asks about it.
func (b *Balancer) settleBrake(ctx context.Context) {
	if b.brake != nil && b.census.complete() {
		b.engaged(ctx, b.count())
	}
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

// mayCreate returns a refusal if a Service without a load balancer must not get one because many are missing: this may
// be another cloud, whose addresses may be those of other Services.
func (b *Balancer) mayCreate(ctx context.Context, r *round) error {
	if r.handle() != "" {
		return nil // lost has decided about it, or its user has
	}
	why := ""
	switch t := b.count(); {
	case b.resumed():
	case tooMany(t.missing-t.leaving, t.published):
		why = manyMissing
	case b.brake != nil:
		// A record that has not been read yet does not delay creations.
		if _, since, engaged := b.brake.Engaged(brakes.MissingLoadBalancers); engaged && !since.IsZero() {
			why = b.engaged(ctx, t)
		}
	}
	if why == "" {
		return nil
	}
	return &refusal{reason: reasonMissing, after: absentPeriod, message: "no load balancer is created: " + why + toResume}
}

// resumed reports whether an operator has decided that load balancers may be replaced.
func (b *Balancer) resumed() bool {
	return b.brake != nil && b.brake.Resumed(brakes.MissingLoadBalancers)
}

// toResume is what an operator can do about an engaged brake.
const toResume = "; if the cloud is the right one and they are lost, run: quayctl resume " + brakes.MissingLoadBalancers
