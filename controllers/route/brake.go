package route

import (
	"sync"
	"time"
)

const (
	// brakeWindow is the time within which unexplained removals add up.
	brakeWindow = 10 * time.Minute
	// brakeShare is the share of the routes that may be removed in that time without an explanation: one in five. One
	// may always be removed.
	brakeShare = 5
	// departureKept is how long the deletion of a Node explains the removal of its routes.
	departureKept = 24 * time.Hour
)

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

// ledger counts the removals without an explanation in the last brakeWindow.
type ledger []time.Time

// add records n removals.
func (l *ledger) add(n int, now time.Time) {
	for range n {
		*l = append(*l, now)
	}
}

// exceeds reports whether n more of routes, which are those that exist now, would be too many.
func (l *ledger) exceeds(n, routes int, now time.Time) bool {
	recent := (*l)[:0]
	for _, at := range *l {
		if now.Sub(at) < brakeWindow {
			recent = append(recent, at)
		}
	}
	*l = recent
	all := n + len(recent)
	return n > 0 && all > 1 && all*brakeShare > routes+len(recent)
}
