// Package policy applies LoadBalancerPolicies and ClusterLoadBalancerPolicies to Services: it selects the policies that
// apply, their defaults, and the rules that a Service breaks. Admission, the controllers and the status of policies
// share it.
package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"quaymaster.dev/api/v1alpha1"
)

// Key is a policy's identity.
type Key struct {
	// Kind is one of the kinds of v1alpha1.
	Kind string
	// Namespace is empty for a cluster policy.
	Namespace, Name string
}

// Policy is a compiled policy. It is immutable.
type Policy struct {
	key         Key
	enforcement v1alpha1.Enforcement
	// created is when the object was created; zero if that is not known.
	created  time.Time
	priority int32
	// selector selects the namespaces of a cluster policy.
	selector labels.Selector
	defaults map[string]string
	rules    []rule
	// catalogs are the catalogs that a cluster policy selects; nil if it selects none.
	catalogs []string
}

// Key returns the policy's identity.
func (p *Policy) Key() Key { return p.key }

// Name returns the policy's name in messages, such as ClusterLoadBalancerPolicy "shared".
func (p *Policy) Name() string { return fmt.Sprintf("%s %q", p.key.Kind, p.key.Name) }

// Selects reports whether the policy applies to the Services of a namespace with these labels.
func (p *Policy) Selects(namespace string, namespaceLabels map[string]string) bool {
	if p.key.Kind == v1alpha1.KindLoadBalancerPolicy {
		return p.key.Namespace == namespace
	}
	return p.selector.Matches(labels.Set(namespaceLabels))
}

// Catalogs returns the catalogs that the policies of a namespace select; ok is false if none does.
func Catalogs(applicable []*Policy) (names []string, ok bool) {
	for _, p := range applicable {
		if p.catalogs != nil {
			return p.catalogs, true
		}
	}
	return nil, false
}

// The policies of each kind that apply to one namespace, at most: every request for a Service evaluates all of them.
const (
	maxNamespaced = 20
	maxCluster    = 100
)

// MaxApplied returns how many policies of the policy's kind apply to one namespace, at most.
func (k Key) MaxApplied() int {
	if k.Kind == v1alpha1.KindLoadBalancerPolicy {
		return maxNamespaced
	}
	return maxCluster
}

// Applicable returns the policies that apply to a namespace, in the order of precedence of their defaults: the policies
// of the namespace, then those of the cluster by priority; among equals by name. Of each kind, those beyond the maximum
// do not apply, so that the policies of a namespace cannot displace those of the cluster.
func Applicable(all []*Policy, namespace string, namespaceLabels map[string]string) []*Policy {
	applicable := selecting(all, namespace, namespaceLabels)
	namespaced := 0
	for namespaced < len(applicable) && scope(applicable[namespaced]) == 0 {
		namespaced++
	}
	if end := namespaced + maxCluster; end < len(applicable) {
		applicable = applicable[:end]
	}
	if namespaced > maxNamespaced {
		last := slices.SortedFunc(slices.Values(applicable[:namespaced]), limitOrder)[maxNamespaced-1]
		applicable = slices.DeleteFunc(applicable, func(p *Policy) bool { return scope(p) == 0 && limitOrder(p, last) > 0 })
	}
	return applicable
}

// limitOrder is the order in which policies of a kind count for the maximum: those of a namespace by age, so that new
// ones cannot displace an older one that their author may not change, and those of the cluster by precedence.
func limitOrder(a, b *Policy) int {
	if scope(a) == 0 {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.key.Name, b.key.Name))
	}
	return precedence(a, b)
}

// selecting returns the policies that select a namespace, by precedence.
func selecting(all []*Policy, namespace string, namespaceLabels map[string]string) []*Policy {
	var found []*Policy
	for _, p := range all {
		if p.Selects(namespace, namespaceLabels) {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, precedence)
	return found
}

// Displaced returns a namespace that the policy selects but to which it does not apply, because too many others do;
// empty if there is none. namespaces holds the labels of all namespaces.
func (p *Policy) Displaced(all []*Policy, namespaces map[string]map[string]string) string {
	most, names := p.key.MaxApplied(), []string{p.key.Namespace}
	if p.key.Kind == v1alpha1.KindClusterLoadBalancerPolicy {
		names = slices.Sorted(maps.Keys(namespaces))
	}
	// The policy itself is one of them.
	upTo := slices.DeleteFunc(slices.Clone(all), func(other *Policy) bool {
		return other.key.Kind != p.key.Kind || other.key.Namespace != p.key.Namespace || limitOrder(other, p) > 0
	})
	if len(upTo) <= most {
		return ""
	}
	for _, name := range names {
		if p.Selects(name, namespaces[name]) && len(selecting(upTo, name, namespaces[name])) > most {
			return name
		}
	}
	return ""
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
