package ingressnode

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// drainTime is how long a member drains before it leaves the group, unless its Node is gone earlier. The drain timeouts
// of load balancers count within it; they are not known here.
const drainTime = 5 * time.Minute

// drains remembers since when Nodes have been about to leave.
type drains struct {
	// cordoned makes cordoned Nodes drain, too.
	cordoned bool
	since    map[types.UID]time.Time
}

// observe returns whether a Node is about to leave, and whether it has been so for drainTime.
func (d *drains) observe(uid types.UID, o observed, now time.Time) (draining, drained bool) {
	if !o.draining && (!d.cordoned || !o.cordoned) {
		delete(d.since, uid)
		return false, false
	}
	since, known := d.since[uid]
	if !known {
		since = now
		d.since[uid] = since
	}
	return true, now.Sub(since) >= drainTime
}

// next returns the time until another Node has drained; 0 if none is draining.
func (d *drains) next(now time.Time) time.Duration {
	var next time.Duration
	for _, since := range d.since {
		if left := since.Add(drainTime).Sub(now); left > 0 {
			next = sooner(next, left)
		}
	}
	return next
}

// forgetAllBut drops the state of Nodes that no longer exist.
func (d *drains) forgetAllBut(present map[types.UID]bool) {
	maps.DeleteFunc(d.since, func(uid types.UID, _ time.Time) bool { return !present[uid] })
}

// sooner returns the shorter of two delays; 0 means none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
