package route

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The reasons of the condition NetworkUnavailable. The first two are those of Kubernetes' own route controller.
const (
	reasonCreated  = "RouteCreated"
	reasonFailed   = "NoRouteCreated"
	reasonInvalid  = "InvalidPodCIDR"
	reasonConflict = "PodCIDRConflict"
	reasonDead     = "InstanceDeleted"
)

// cause is the reason why a route is removed.
type cause string

const (
	// causeDead: the cloud reports that the instance is deleted.
	causeDead cause = "the instance is deleted"
	// causeNoNode: no Node has the instance.
	causeNoNode cause = "no node has the instance"
	// causeStale: the Node of the instance has other pod CIDRs.
	causeStale cause = "the node of the instance has other pod CIDRs"
)

type removal struct {
	Route

	cause cause
}

// decision is what to do about all Nodes and routes together.
type decision struct {
	// upserts are routes to create or to move, by destination.
	upserts []Route
	// removals are routes that lead to no Node.
	removals []removal
	// suspects are like removals, but must be kept if their instance has the hostname of one of the uninitialized Nodes.
	suspects      []removal
	uninitialized map[string]bool
	// results has the Nodes that must have routes, by name.
	results map[string]*result
}

// problem is why a Node lacks a route: the reason of its condition, and a message to operators.
type problem struct{ Reason, Message string }

// result is what has become of the routes of a Node.
type result struct {
	// wanted are the destinations of the Node that are to be written.
	wanted []netip.Prefix
	// problems are those that only a change of the Node or of the cloud can solve.
	problems []problem
}

// decide compares Nodes and routes. It follows these rules:
//
//   - A Node has a route to its instance for each of its pod CIDRs. If several Nodes have the same pod CIDR, the one
//     that has the route keeps it, or else the oldest gets it; the others have a problem.
//   - A Node that is not initialized has no instance yet and gets its routes once it has one. Until then, it protects
//     routes to its pod CIDRs and routes to an instance with its hostname, which may be its own, but no other routes.
//   - A route is a black hole, and removed, if its destination is not the pod CIDR of a Node and its instance belongs
//     to no Node, or to a Node that has other pod CIDRs. A Node without pod CIDRs keeps its routes: it may get them
//     again.
//   - A route to a deleted instance is also removed if an uninitialized Node would protect it. It is kept as long as
//     the Node of that instance exists, as a new route to a deleted instance cannot be created.
//   - Only routes within clusterCIDRs are removed. Others are not for pods.
//
// Nodes of other clouds must not be among nodes: they neither have nor protect routes.
func decide(nodes []node, routes map[netip.Prefix]Route, clusterCIDRs []netip.Prefix) decision {
	d := decision{results: map[string]*result{}, uninitialized: map[string]bool{}}
	holders := map[netip.Prefix]node{}
	instances := map[string][]node{}
	for _, n := range slices.SortedFunc(slices.Values(nodes), older) {
		if n.instance == "" {
			d.uninitialized[n.name] = true
		} else {
			instances[n.instance] = append(instances[n.instance], n)
			if len(n.podCIDRs) > 0 || n.invalid != "" {
				d.results[n.name] = &result{}
			}
		}
		for _, cidr := range n.podCIDRs {
			first, taken := holders[cidr]
			has := n.instance != "" && routes[cidr].Hop.InstanceID == n.instance
			if !taken || has && routes[cidr].Hop.InstanceID != first.instance {
				holders[cidr] = n
			}
		}
	}
	for _, n := range nodes {
		if r := d.results[n.name]; r != nil {
			d.compare(r, n, routes, holders)
		}
	}
	for destination, route := range routes {
		holder, held := holders[destination]
		if within(destination, clusterCIDRs) && !(held && holder.instance != "") {
			d.clean(route, held, instances[route.Hop.InstanceID])
		}
	}
	slices.SortFunc(d.upserts, byDestination)
	slices.SortFunc(d.removals, func(a, b removal) int { return byDestination(a.Route, b.Route) })
	slices.SortFunc(d.suspects, func(a, b removal) int { return byDestination(a.Route, b.Route) })
	return d
}

// compare decides about the routes of one initialized Node.
func (d *decision) compare(r *result, n node, routes map[netip.Prefix]Route, holders map[netip.Prefix]node) {
	if n.invalid != "" {
		r.problems = append(r.problems, problem{Reason: reasonInvalid, Message: n.invalid})
	}
	for _, cidr := range n.podCIDRs {
		route, exists := routes[cidr]
		leads := exists && route.Hop == Hop{InstanceID: n.instance}
		switch holder := holders[cidr]; {
		case holder.name != n.name:
			r.problems = append(r.problems, problem{
				Reason: reasonConflict, Message: fmt.Sprintf("pod CIDR %s is also that of node %s", cidr, holder.name),
			})
		case leads && route.Dead:
			r.problems = append(r.problems, problem{
				Reason: reasonDead, Message: fmt.Sprintf("the cloud reports that instance %s is deleted", n.instance),
			})
		case !leads:
			r.wanted = append(r.wanted, cidr)
			d.upserts = append(d.upserts, Route{Destination: cidr, Hop: Hop{InstanceID: n.instance}})
		}
	}
}

// clean decides about a route whose destination is not the pod CIDR of an initialized Node. held is true if it is
// that of an uninitialized one; nodes are those of the route's instance.
func (d *decision) clean(route Route, held bool, nodes []node) {
	switch {
	case len(nodes) > 0:
		waits := slices.ContainsFunc(nodes, func(n node) bool { return len(n.podCIDRs) == 0 })
		if !held && !waits {
			d.removals = append(d.removals, removal{route, causeStale})
		}
	case route.Dead:
		d.removals = append(d.removals, removal{route, causeDead})
	case held:
	case len(d.uninitialized) > 0 && route.Hop.InstanceID != "":
		d.suspects = append(d.suspects, removal{route, causeNoNode})
	default:
		d.removals = append(d.removals, removal{route, causeNoNode})
	}
}

func older(a, b node) int {
	return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.name, b.name))
}

func byDestination(a, b Route) int { return a.Destination.Compare(b.Destination) }

// within reports whether a prefix is part of one of the CIDRs.
func within(p netip.Prefix, cidrs []netip.Prefix) bool {
	return slices.ContainsFunc(cidrs, func(cidr netip.Prefix) bool {
		return cidr.Bits() <= p.Bits() && cidr.Contains(p.Addr())
	})
}

// alike reports whether two states of a Node make no difference to routes. Addresses do not appear in routes, but a change of
// them is a reason to repeat what has failed.
func alike(a, b *corev1.Node) bool {
	return a.UID == b.UID && a.Spec.ProviderID == b.Spec.ProviderID && slices.Equal(a.Spec.PodCIDRs, b.Spec.PodCIDRs) &&
		slices.Equal(a.Status.Addresses, b.Status.Addresses)
}

// node is a Node as decide takes it.
type node struct {
	name    string
	created time.Time
	// instance is empty while the Node is not initialized.
	instance string
	// podCIDRs are those of the Node, in canonical form.
	podCIDRs []netip.Prefix
	// invalid is the problem of a pod CIDR that cannot be a destination.
	invalid string
}

// candidate returns the Node as decide takes it, or false for a Node of another cloud, which has no routes here. A pod CIDR
// outside clusterCIDRs gets no route: it could lead anything to the Node, up to what is meant for the default route.
func candidate(n *corev1.Node, instanceOf func(string) (string, bool), clusterCIDRs []netip.Prefix) (node, bool) {
	c := node{name: n.Name, created: n.CreationTimestamp.Time}
	if n.Spec.ProviderID != "" {
		instance, ours := instanceOf(n.Spec.ProviderID)
		if !ours {
			return node{}, false
		}
		c.instance = instance
	}
	for _, cidr := range n.Spec.PodCIDRs {
		prefix, err := netip.ParsePrefix(cidr)
		switch {
		case err != nil:
			c.invalid = fmt.Sprintf("pod CIDR %q is not a CIDR", cidr)
		case !within(prefix.Masked(), clusterCIDRs):
			c.invalid = fmt.Sprintf("pod CIDR %s is not within --cluster-cidr", prefix)
		case !slices.Contains(c.podCIDRs, prefix.Masked()):
			c.podCIDRs = append(c.podCIDRs, prefix.Masked())
		}
	}
	return c, true
}
