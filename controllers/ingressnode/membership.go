package ingressnode

import (
	"cmp"
	"slices"
)

// Member is a machine of a group.
type Member struct {
	// InstanceID is the machine's id in the cloud, and its identity in the group.
	InstanceID string
	// Addresses are the machine's internal addresses, one a family.
	Addresses []string
	// Zone is empty where the Node has none.
	Zone string
}

func (m Member) equal(other Member) bool {
	return m.InstanceID == other.InstanceID && m.Zone == other.Zone && slices.Equal(m.Addresses, other.Addresses)
}

// candidate is what the decision needs to know of a Node.
type candidate struct {
	name string
	mark mark
	// unreadable says that the annotation's value is bad and that no good one is known.
	unreadable bool
	// excluded Nodes are about to be deleted or bear the label that keeps them out of all load balancers.
	excluded bool
	ready    bool
	// member is nil while the Node's instance or address is not known.
	member *Member
}

func (n candidate) barred() bool { return n.excluded || n.mark.never }

// decide is the membership of a group, in the order of the instances' ids.
//
// Marked Nodes serve; where there is none, the fallback decides. Of them the ready ones serve, or all of them if none is
// ready. What is not known never empties a group: while it is open whether the only Nodes with an annotation are marked,
// or which instances the chosen Nodes run on, those that serve now go on.
func decide(group string, nodes []candidate, current []Member, fallbackAll bool) []Member {
	var marked, unmarked, undecided []candidate
	for _, n := range nodes {
		switch {
		case n.barred():
		case n.unreadable && serves(current, n):
			undecided = append(undecided, n)
		case n.unreadable:
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

// hold is what serves now, apart from the Nodes that must not serve.
func hold(nodes []candidate, current []Member) []Member {
	return slices.DeleteFunc(slices.Clone(current), func(m Member) bool {
		return slices.ContainsFunc(nodes, func(n candidate) bool { return n.barred() && serves([]Member{m}, n) })
	})
}

func serves(current []Member, n candidate) bool {
	return n.member != nil && slices.ContainsFunc(current, func(m Member) bool { return m.InstanceID == n.member.InstanceID })
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

// members are the Nodes' machines. Of two Nodes that claim the same one, the first by name speaks for it.
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

// difference is what turns current into wanted: members to write and instances to take out, in order.
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
