package route

import (
	"maps"
	"net/netip"
	"time"
)

const (
	// A failed change is repeated after attemptBase; the delay doubles with every failure, up to attemptMax.
	attemptBase = time.Second
	attemptMax  = 2 * time.Minute
)

// attempts remembers failed changes by destination, so that each has delays of its own and no change waits for another.
type attempts map[netip.Prefix]*attempt

type attempt struct {
	change Change
	// at is the time of the last failure, err its error.
	at  time.Time
	err error
	// delay is the time to wait, which ends at due.
	delay time.Duration
	due   time.Time
}

// of returns the failure of exactly this change, or nil.
func (a attempts) of(c Change) *attempt {
	if failed := a[c.Destination]; failed != nil && failed.change == c {
		return failed
	}
	return nil
}

// failed records a failure.
func (a attempts) failed(c Change, err error, now time.Time) {
	delay := attemptBase
	if before := a.of(c); before != nil {
		delay = min(2*before.delay, attemptMax)
	}
	a[c.Destination] = &attempt{change: c, at: now, err: err, delay: delay, due: now.Add(delay)}
}

// forget forgets the failures of Nodes that have changed, so that these are repeated at once.
func (a attempts) forget(nodes []node, changed map[string]bool) {
	for _, n := range nodes {
		if !changed[n.name] {
			continue
		}
		for _, cidr := range n.podCIDRs {
			delete(a, cidr)
		}
	}
}

// keep forgets the failures of all changes but those of a decision and returns the changes that are due.
func (a attempts) keep(changes []Change, now time.Time) []Change {
	var due []Change
	wanted := make(map[netip.Prefix]bool, len(changes))
	for _, c := range changes {
		wanted[c.Destination] = true
		if failed := a.of(c); failed == nil || !failed.due.After(now) {
			due = append(due, c)
		}
	}
	maps.DeleteFunc(a, func(destination netip.Prefix, _ *attempt) bool { return !wanted[destination] })
	return due
}

// next returns how long to wait for the first change that is due, or 0 if none has failed.
func (a attempts) next(now time.Time) time.Duration {
	var next time.Duration
	for _, failed := range a {
		if wait := max(failed.due.Sub(now), time.Millisecond); next == 0 || wait < next {
			next = wait
		}
	}
	return next
}
