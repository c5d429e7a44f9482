package policy

import (
	"cmp"
	"slices"

	"quaymaster.dev/api/v1alpha1"
)

// size is what policies cost: the bytes of their defaults and rules as JSON, and the steps of their patterns.
type size struct{ bytes, steps int }

func (s size) plus(other size) size { return size{s.bytes + other.bytes, s.steps + other.steps} }

func (s size) within(most size) bool { return s.bytes <= most.bytes && s.steps <= most.steps }

// limit is what applies to one namespace at most. Every request for a Service evaluates it, and the policies of a
// namespace are written by its admin, who must not be able to exhaust the memory of a process that serves all others.
type limit struct {
	policies int
	size     size
}

// The limits by kind: the policies of a namespace cannot displace those of the cluster, whose author is trusted.
var (
	namespaceLimit = limit{20, size{64 << 10, 10_000}}
	clusterLimit   = limit{100, size{1 << 20, 100_000}}
)

func (k Key) limit() limit {
	if k.Kind == v1alpha1.KindLoadBalancerPolicy {
		return namespaceLimit
	}
	return clusterLimit
}

// MaxApplied returns how many policies of the policy's kind apply to one namespace, at most.
func (k Key) MaxApplied() int { return k.limit().policies }

// Applicable returns the policies that apply to a namespace, in the order of precedence of their defaults: the policies
// of the namespace, then those of the cluster by priority; among equals by name. Of each kind, those beyond the maximum
// do not apply, and those beyond the size are inactive.
func Applicable(all []*Policy, namespace string, namespaceLabels map[string]string) []*Policy {
	var selected [2][]*Policy
	for _, p := range all {
		if p.Selects(namespace, namespaceLabels) {
			selected[scope(p)] = append(selected[scope(p)], p)
		}
	}
	for i := range selected {
		slices.SortFunc(selected[i], LimitOrder)
		selected[i] = Limit(selected[i])
	}
	applicable := slices.Concat(selected[0], selected[1])
	slices.SortFunc(applicable, precedence)
	return applicable
}

// Limit returns those of the policies of one kind, in LimitOrder, that apply together. Those that exceed the size are
// replaced by inactive ones.
func Limit(sorted []*Policy) []*Policy {
	if len(sorted) == 0 {
		return nil
	}
	most, used := sorted[0].key.limit(), size{}
	applied := slices.Clone(sorted[:min(len(sorted), most.policies)])
	for i, p := range applied {
		if with := used.plus(p.size); with.within(most.size) {
			used = with
		} else if !p.inactive {
			applied[i] = p.off()
		}
	}
	return applied
}

// LimitOrder is the order in which policies of a kind count for its limit: those of a namespace by age, so that new ones
// cannot displace an older one that their author may not change, and those of the cluster by precedence.
func LimitOrder(a, b *Policy) int {
	if scope(a) == 0 {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.key.Name, b.key.Name))
	}
	return precedence(a, b)
}

// Excluded returns a namespace that the policy selects but in which it is inactive or, if there are too many, does not
// apply; empty if there is none. all holds at least the policies of the kind and namespace, namespaces the labels of all
// namespaces.
func (p *Policy) Excluded(all []*Policy, namespaces map[string]map[string]string) (namespace string, inactive bool) {
	// The policy itself is one of them.
	upTo, total := []*Policy(nil), size{}
	for _, other := range all {
		if other.key.Kind == p.key.Kind && other.key.Namespace == p.key.Namespace && LimitOrder(other, p) <= 0 {
			upTo, total = append(upTo, other), total.plus(other.size)
		}
	}
	if most := p.key.limit(); len(upTo) <= most.policies && total.within(most.size) {
		return "", false
	}
	for _, name := range selected(p, namespaces) {
		applicable := Applicable(upTo, name, namespaces[name])
		at := slices.IndexFunc(applicable, func(other *Policy) bool { return other.key == p.key })
		if at < 0 || applicable[at].inactive {
			return name, at >= 0
		}
	}
	return "", false
}

// precedence is negative if the defaults of a take precedence over those of b.
func precedence(a, b *Policy) int { return cmp.Or(rank(a, b), cmp.Compare(a.key.Name, b.key.Name)) }

// rank is like precedence, but ignores names: 0 is a conflict.
func rank(a, b *Policy) int {
	return cmp.Or(cmp.Compare(scope(a), scope(b)), cmp.Compare(b.priority, a.priority))
}

// scope returns the rank of a policy by its kind: policies of a namespace precede those of the cluster.
func scope(p *Policy) int {
	if p.key.Kind == v1alpha1.KindLoadBalancerPolicy {
		return 0
	}
	return 1
}
