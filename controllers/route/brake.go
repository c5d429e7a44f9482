package route

import (
	"sync"
	"time"

	"quaymaster.dev/internal/brakes"
)

// budget limits the removals of routes without an explanation.
var budget = brakes.Budget{Percent: 20, Window: 10 * time.Minute}

// departureKept is how long the deletion of a Node explains the removal of its routes.
const departureKept = 24 * time.Hour

// departures are the instances whose Nodes have been seen to be deleted.
type departures struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (d *departures) add(instance string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, at := range d.at {
		if now.Sub(at) > departureKept {
			delete(d.at, i)
		}
	}
	d.at[instance] = now
}

// remove forgets the deletion of a Node that is back.
func (d *departures) remove(instance string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.at, instance)
}

func (d *departures) has(instance string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.at[instance]
	return ok
}

// explained reports whether a removal follows from something that was observed, rather than from the absence of a Node:
// from the deletion of the Node or of the instance.
func (d *departures) explained(r removal) bool {
	return r.Dead || d.has(r.Hop.InstanceID)
}
