package ingressnode

import (
	"cmp"
	"slices"
)

// memberWeight is the weight of every member: the Nodes are equal.
const memberWeight = 1

// Member is a machine of a group.
type Member struct {
	// InstanceID is the ID of the machine in the cloud and its identity in the group.
	InstanceID string
	// Addresses are the internal addresses of the machine, one per family.
	Addresses []string
	// Zone is empty if the Node has none.
	Zone string
	// Weight is the member's share of the traffic.
	Weight int
	// Draining members get no new connections.
	Draining bool
}

func (m Member) equal(other Member) bool {
	return m.InstanceID == other.InstanceID && m.Zone == other.Zone && slices.Equal(m.Addresses, other.Addresses) &&
		m.Weight == other.Weight && m.Draining == other.Draining
}

// candidate holds the properties of a Node that decide its membership.
type candidate struct {
	name string
	mark mark
	// unmarked are the groups whose mark was taken from the Node since the last sync.
	unmarked []string
	// invalid is true if the annotation is invalid and no valid one is known.
	invalid bool
	// excluded is true if the Node has the label that excludes it from all load balancers.
	excluded  bool
	readiness readiness
	// draining is true if the Node is about to leave, drained if that has been so for drainTime.
	draining, drained bool
	// instanceID is empty while it is unknown on which machine the Node runs.
	instanceID string
	// addresses are the internal addresses that the Node reports.
	addresses []string
	zone      string
	// machine is what the cloud knows of the instance; nil means that there is no answer of the cloud.
	machine *Machine
}

func (n candidate) barred() bool { return n.excluded || n.mark.never }

// member returns the machine of a Node as a member. A Node reports its own addresses, so only those count that the
// cloud has assigned to the machine. If nothing is known, the current member stays as it is; usable is false if there
// is none.
func (n candidate) member(current []Member) (m Member, usable bool) {
	if n.instanceID == "" {
		return Member{}, false
	}
	i := slices.IndexFunc(current, func(m Member) bool { return m.InstanceID == n.instanceID })
	if i >= 0 {
		m, usable = current[i], true
	}
	if n.machine != nil && len(n.addresses) > 0 {
		assigned := onePerFamily(n.machine.assigned(n.addresses))
		if len(assigned) > 0 {
			m.Zone = n.zone
		} else {
			assigned = n.machine.assigned(m.Addresses)
		}
		m.Addresses, usable = assigned, len(assigned) > 0
	}
	m.InstanceID, m.Weight, m.Draining = n.instanceID, memberWeight, false
	return m, usable
}

// usable is a Node that can be a member.
type usable struct {
	candidate
	member Member
	serves bool
}

// choose returns the Nodes that may serve a group: the marked ones or, if there is none, those of the fallback. While
// it is unknown whether the only annotated Nodes are marked, the Nodes that serve now stay.
func choose(group string, nodes []candidate, current []Member, fallbackAll bool) []candidate {
	var marked, unmarked, undecided []candidate
	for _, n := range nodes {
		switch {
		case n.barred():
		case n.invalid && serves(current, n):
			undecided = append(undecided, n)
		case n.invalid:
		case n.mark.has(group):
			marked = append(marked, n)
		default:
			unmarked = append(unmarked, n)
		}
	}
	switch {
	case len(marked) > 0:
		return slices.Concat(marked, undecided)
	case len(undecided) > 0:
		return filter(slices.Concat(unmarked, undecided), func(n candidate) bool { return serves(current, n) })
	case fallbackAll:
		return unmarked
	}
	return nil
}

// decide returns the members that a group should have, ordered by instance ID, whatever the brake says.
//
// Of the chosen Nodes, the ready ones serve, and those about which there is no news if they serve already; if these are
// none, all of them do. Nodes that are about to leave drain as long as another one serves. While it is unknown on which
// instances the chosen Nodes run, the current members stay.
func decide(chosen, nodes []candidate, current []Member) []Member {
	var staying, draining []usable
	for _, n := range chosen {
		m, ok := n.member(current)
		switch u := (usable{candidate: n, member: m, serves: serves(current, n)}); {
		case !ok:
		case n.draining:
			draining = append(draining, u)
		default:
			staying = append(staying, u)
		}
	}
	if len(staying)+len(draining) == 0 && len(chosen) > 0 {
		return hold(nodes, current)
	}
	if len(staying) == 0 {
		return members(available(draining))
	}
	serving := available(staying)
	for _, u := range draining {
		if u.serves && !u.drained {
			u.member.Draining = true
			serving = append(serving, u)
		}
	}
	return members(serving)
}

// available returns the Nodes that may get traffic, or all if there is no such Node.
func available(nodes []usable) []usable {
	able := filter(nodes, func(n usable) bool { return n.readiness == ready || n.readiness == unreported && n.serves })
	if len(able) == 0 {
		return nodes
	}
	return able
}

// hold returns the current members without the Nodes that must not serve.
func hold(nodes []candidate, current []Member) []Member {
	return filter(current, func(m Member) bool {
		return !slices.ContainsFunc(nodes, func(n candidate) bool { return n.barred() && n.instanceID == m.InstanceID })
	})
}

func serves(current []Member, n candidate) bool {
	return n.instanceID != "" && has(current, n.instanceID)
}

func has(list []Member, instanceID string) bool {
	return slices.ContainsFunc(list, func(m Member) bool { return m.InstanceID == instanceID })
}

func filter[T any](list []T, keep func(T) bool) []T {
	var kept []T
	for _, item := range list {
		if keep(item) {
			kept = append(kept, item)
		}
	}
	return kept
}

// members returns the machines of Nodes. If two Nodes claim the same machine, the first by name determines the member.
func members(nodes []usable) []Member {
	slices.SortFunc(nodes, func(a, b usable) int {
		return cmp.Or(cmp.Compare(a.instanceID, b.instanceID), cmp.Compare(a.name, b.name))
	})
	var list []Member
	for _, n := range nodes {
		if len(list) == 0 || list[len(list)-1].InstanceID != n.instanceID {
			list = append(list, n.member)
		}
	}
	return list
}

// difference returns what turns current into wanted: members to write and instances to remove, in order.
func difference(current, wanted []Member) (upsert []Member, remove []string) {
	for _, w := range wanted {
		if !slices.ContainsFunc(current, w.equal) {
			upsert = append(upsert, w)
		}
	}
	for _, c := range current {
		if !has(wanted, c.InstanceID) {
			remove = append(remove, c.InstanceID)
		}
	}
	slices.Sort(remove)
	return upsert, remove
}
