package ingressnode

import (
	"cmp"
	"slices"
)

// Member is a machine of a group.
type Member struct {
	// InstanceID is the ID of the machine in the cloud and its identity in the group.
	InstanceID string
	// Addresses are the internal addresses of the machine, one per family.
	Addresses []string
	// Zone is empty if the Node has none.
	Zone string
}

func (m Member) equal(other Member) bool {
	return m.InstanceID == other.InstanceID && m.Zone == other.Zone && slices.Equal(m.Addresses, other.Addresses)
}

// candidate holds the properties of a Node that decide its membership.
type candidate struct {
	name string
	mark mark
	// invalid is true if the annotation is invalid and no valid one is known.
	invalid bool
	// excluded is true if the Node is being deleted or has the label that excludes it from all load balancers.
	excluded bool
	ready    bool
	// member is nil while the instance or the address of the Node is unknown.
	member *Member
}

func (n candidate) barred() bool { return n.excluded || n.mark.never }

// decide returns the members of a group, ordered by instance ID.
//
// Marked Nodes serve the group; if there is none, the fallback decides. Of these Nodes the ready ones serve, or all of
// them if none is ready. Missing information never empties a group: while it is unknown whether the only annotated
// Nodes are marked, or on which instances the chosen Nodes run, the current members stay.
func decide(group string, nodes []candidate, current []Member, fallbackAll bool) []Member {
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
	var chosen []candidate
	switch {
	case len(marked) > 0:
		chosen = slices.Concat(marked, undecided)
	case len(undecided) > 0:
		chosen = filter(slices.Concat(unmarked, undecided), func(n candidate) bool { return serves(current, n) })
	case fallbackAll:
		chosen = unmarked
	}
	usable := filter(chosen, func(n candidate) bool { return n.member != nil })
	if len(usable) == 0 && len(chosen) > 0 {
		return hold(nodes, current)
	}
	if ready := filter(usable, func(n candidate) bool { return n.ready }); len(ready) > 0 {
		usable = ready
	}
	return members(usable)
}

// hold returns the current members without the Nodes that must not serve.
func hold(nodes []candidate, current []Member) []Member {
	return slices.DeleteFunc(slices.Clone(current), func(m Member) bool {
		return slices.ContainsFunc(nodes, func(n candidate) bool { return n.barred() && serves([]Member{m}, n) })
	})
}

func serves(current []Member, n candidate) bool {
	return n.member != nil &&
		slices.ContainsFunc(current, func(m Member) bool { return m.InstanceID == n.member.InstanceID })
}

func filter(nodes []candidate, keep func(candidate) bool) []candidate {
	var kept []candidate
	for _, n := range nodes {
		if keep(n) {
			kept = append(kept, n)
		}
	}
	return kept
}

// members returns the machines of Nodes. If two Nodes claim the same machine, the first by name determines the member.
func members(nodes []candidate) []Member {
	slices.SortFunc(nodes, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.member.InstanceID, b.member.InstanceID), cmp.Compare(a.name, b.name))
	})
	var list []Member
	for _, n := range nodes {
		if len(list) == 0 || list[len(list)-1].InstanceID != n.member.InstanceID {
			list = append(list, *n.member)
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
		if !slices.ContainsFunc(wanted, func(w Member) bool { return w.InstanceID == c.InstanceID }) {
			remove = append(remove, c.InstanceID)
		}
	}
	slices.Sort(remove)
	return upsert, remove
}
