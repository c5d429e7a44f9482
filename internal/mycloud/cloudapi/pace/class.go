package pace

import "time"

// Class is the priority of a request. It is a label value of metrics.
type Class string

// The classes, most important first.
const (
	// Safety is for reads that prevent harm: whether a machine exists, or whether an object is what a write expects.
	Safety Class = "safety"
	// Nodes is for the writes that decide which Nodes get traffic: members of node groups, and routes.
	Nodes Class = "nodes"
	// Write is for all other writes.
	Write Class = "write"
	// Poll is for reads that wait for the cloud or serve a user.
	Poll Class = "poll"
	// Drift is for reads that only look for differences, which can be repeated later.
	Drift Class = "drift"
)

// Classes are all classes.
var Classes = []Class{Safety, Nodes, Write, Poll, Drift}

// writes reports whether requests of the class are writes.
func (c Class) writes() bool { return c == Nodes || c == Write }

// reserve returns the share of a budget that the class leaves to more important ones.
func (c Class) reserve() float64 {
	switch c {
	case Safety:
		return 0
	case Nodes:
		return 0.05
	case Write:
		return 0.15
	case Poll:
		return 0.25
	case Drift:
	}
	return 0.5
}

// flow is the use that one of those who share a budget makes of it, such as a namespace. What it has used lately, it
// leaves to the others in addition to the reserve of the class: the flow that has used less goes first.
type flow struct {
	// used is the number of requests, which fades within a window of the quota. It was brought up to date at the time at.
	used float64
	at   time.Time
	// due is when the next refused request may return. They get one after the other, as fast as the budget accrues.
	due time.Time
}

// fade brings used up to date: the most that counts, half of a burst, is forgotten within a window.
func (f *flow) fade(b *budget, now time.Time) {
	f.used = max(0, f.used-b.mostUsed()*now.Sub(f.at).Seconds()/b.policy.Window.Seconds())
	f.at = now
}

// mostUsed is the most that counts of what a flow has used.
func (b *budget) mostUsed() float64 { return float64(b.limiter.Burst()) / 2 }

// flow returns the use that a request's flow makes of the budget, or nil if the request is of no flow or for safety.
func (b *budget) flow(r Request, now time.Time) *flow {
	if r.Flow == "" || r.Class == Safety {
		return nil
	}
	f := b.flows[r.Flow]
	if f == nil {
		for name, other := range b.flows {
			if other.fade(b, now); other.used == 0 && !other.due.After(now) {
				delete(b.flows, name)
			}
		}
		f = &flow{}
		b.flows[r.Flow] = f
	}
	f.fade(b, now)
	return f
}

// appoint returns when a refused request of a flow may return, if there is budget for it after a wait.
func (b *budget) appoint(r Request, wait time.Duration, now time.Time) time.Duration {
	f := b.flow(r, now)
	if f == nil || wait == 0 {
		return wait
	}
	if f.due.Before(now) {
		f.due = now
	}
	wait = max(wait, f.due.Sub(now))
	// Appointments that are not kept must not delay others for good.
	f.due = f.due.Add(time.Duration(float64(time.Second) / float64(b.limiter.Limit())))
	if latest := now.Add(MaxSilence); f.due.After(latest) {
		f.due = latest
	}
	return wait
}
