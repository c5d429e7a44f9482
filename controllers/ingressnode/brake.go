package ingressnode

import (
	"slices"
	"time"

	"quaymaster.dev/internal/kube/brakes"
)

// brakeWindow is the period in which a share of the members may leave.
const brakeWindow = time.Minute

// brake limits how fast members leave a group without a decision about their Node: a fault that makes many Nodes look
// unfit at once, or a first mark that makes all others superfluous, must not take the backends from load balancers
// before an operator notices.
type brake struct {
	// left counts the members that left. With 100 percent, there is no limit.
	left brakes.Account
	// since is when the brake began to count. What happened before is unknown, so no member leaves for a window.
	since time.Time
}

func newBrake(percent int, now time.Time) *brake {
	return &brake{left: brakes.Account{Budget: brakes.Budget{Percent: percent, Window: brakeWindow}}, since: now}
}

// allowance returns how many of the members may leave now.
func (b *brake) allowance(now time.Time, members int) int {
	if b.left.Percent >= 100 {
		return members
	}
	if now.Sub(b.since) < brakeWindow {
		return 0
	}
	return b.left.Room(members, now)
}

// next returns the time until more members may leave; 0 if it does not depend on time.
func (b *brake) next(now time.Time) time.Duration {
	if first := b.since.Add(brakeWindow); first.After(now) {
		return first.Sub(now)
	}
	return b.left.Next(now)
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
