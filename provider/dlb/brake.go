package dlb

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"

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

// held returns why no load balancer may be replaced or given up, or an empty string.
func (b *Balancer) held() string {
	missing, recorded := b.count()
	if !tooMany(missing, recorded) {
		return ""
	}
	return fmt.Sprintf("nothing is done while more than %d %% of the cluster's load balancers are missing",
		int(missingShare*100))
}
