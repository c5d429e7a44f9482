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

// census counts the load balancers that Services record, and those among them that the cloud does not have.
type census struct {
	mu                sync.Mutex
	taken             time.Time
	missing, recorded int
}

// count returns the counts of the last second.
func (b *Balancer) count() (missing, recorded int) {
	c := &b.census
	c.mu.Lock()
	defer c.mu.Unlock()
	now := b.clock.Now()
	if !c.taken.IsZero() && now.Sub(c.taken) < countEvery {
		return c.missing, c.recorded
	}
	c.taken, c.missing, c.recorded = now, 0, 0
	services, err := b.services.List(labels.Everything())
	if err != nil {
		return 0, 0 // the lister of an informer does not fail
	}
	for _, svc := range services {
		record := recordOf(svc)
		if !hasRecord(svc) || record.ID == "" && !b.reviewer.Owned(svc) || record.Deleting {
			continue
		}
		c.recorded++
		there := len(b.mirror.LoadBalancers.Find(string(svc.UID))) > 0
		if lb := b.mirror.LoadBalancers.Get(record.ID); lb != nil {
			there = there || lb.Tags[ownership.ServiceUID] == string(svc.UID)
		}
		if !there {
			c.missing++
		}
	}
	return c.missing, c.recorded
}

// Brake is the durable brake that stops the replacement of load balancers while many are missing.
type Brake interface {
	// Engaged reports whether the work of a brake must stop, since when and why.
	Engaged(name string) (message string, since time.Time, engaged bool)
	// Engage stops the work. It has no effect while an operator has resumed the work.
	Engage(ctx context.Context, name, message string) error
	// Release ends an engagement.
	Release(ctx context.Context, name string) error
}

// held engages or releases the brake, and returns why no load balancer may be replaced or given up, or an empty string.
func (b *Balancer) held(ctx context.Context) string {
	missing, recorded := b.count()
	stop := tooMany(missing, recorded)
	message := fmt.Sprintf("more than %d %% of the cluster's load balancers are missing", int(missingShare*100))
	if b.brake == nil {
		if stop {
			return message
		}
		return ""
	}
	_, _, engaged := b.brake.Engaged(brakes.MissingLoadBalancers)
	var err error
	switch {
	case stop:
		err = b.brake.Engage(ctx, brakes.MissingLoadBalancers, message)
	case engaged:
		err = b.brake.Release(ctx, brakes.MissingLoadBalancers)
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not record the brake")
	}
	if message, _, engaged = b.brake.Engaged(brakes.MissingLoadBalancers); engaged {
		return message
	}
	return ""
}
