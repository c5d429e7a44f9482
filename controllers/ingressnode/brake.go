package ingressnode

import (
	"slices"
	"time"
)

// brakeWindow is the period in which a share of the members may leave.
const brakeWindow = time.Minute

// brake limits how fast members leave a group without a decision about their Node: a fault that makes many Nodes look
// unfit at once, or a first mark that makes all others superfluous, must not take the backends from load balancers
// before an operator notices.
type brake struct {
	// percent is the share of the members that may leave per brakeWindow; 100 releases the brake.
	percent int
	// since is when the brake began to count. What happened before is unknown, so no member leaves for a window.
	since time.Time
	// left are the times at which members left, in order.
	left []time.Time
}

// allowance returns how many of the members may leave now: of those at the beginning of the window the share, or at
// least one.
func (b *brake) allowance(now time.Time, members int) int {
	if b.percent >= 100 {
		return members
	}
	b.left = slices.DeleteFunc(b.left, func(at time.Time) bool { return now.Sub(at) >= brakeWindow })
	if now.Sub(b.since) < brakeWindow {
		return 0
	}
	return max(0, max(1, (members+len(b.left))*b.percent/100)-len(b.left))
}

// spend counts members that have left.
func (b *brake) spend(now time.Time, members int) {
	b.left = append(b.left, slices.Repeat([]time.Time{now}, members)...)
}

// next returns the time until more members may leave; 0 if it does not depend on time.
func (b *brake) next(now time.Time) time.Duration {
	if first := b.since.Add(brakeWindow); first.After(now) {
		return first.Sub(now)
	}
	if len(b.left) > 0 {
		return b.left[0].Add(brakeWindow).Sub(now)
	}
	return 0
}

// departure holds the next members of a group on the way to those that it should have.
type departure struct {
	// members are the members from now on.
	members []Member
	// braked is the number of members that leave at the expense of the brake.
	braked int
	// held are the instances that should leave and stay for now.
	held []string
	// joined is true if members stay because others join first.
	joined bool
}

// depart turns current into wanted, except for members that must not leave yet. A member that is released leaves at
// once, because a person or the cluster has decided about its Node; of the others, allowance may leave, but none as
// long as others join and never the last one.
func depart(current, wanted []Member, released func(instanceID string) bool, allowance int) departure {
	d := departure{members: slices.Clone(wanted)}
	leaving := filter(current, func(m Member) bool { return !has(wanted, m.InstanceID) && !released(m.InstanceID) })
	joins := slices.ContainsFunc(wanted, func(m Member) bool { return !has(current, m.InstanceID) })
	active := slices.ContainsFunc(wanted, func(m Member) bool { return !m.Draining })
	switch d.braked = min(allowance, len(leaving)); {
	case joins && d.braked > 0:
		d.braked, d.joined = 0, true
	case !active && d.braked > 0 && d.braked == len(leaving):
		d.braked--
	}
	for _, m := range leaving[d.braked:] {
		d.members = append(d.members, m)
		d.held = append(d.held, m.InstanceID)
	}
	return d
}
