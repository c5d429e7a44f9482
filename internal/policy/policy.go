// Package policy applies LoadBalancerPolicies and ClusterLoadBalancerPolicies to Services: it selects the policies that
// apply, their defaults, and the rules that a Service breaks. Admission, the controllers and the status of policies
// share it.
package policy

import (
	"cmp"
	"fmt"
	"slices"

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
	priority    int32
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

// Applicable returns the policies that apply to a namespace, in the order of precedence of their defaults: the policies
// of the namespace, then those of the cluster by priority; among equals by name.
func Applicable(all []*Policy, namespace string, namespaceLabels map[string]string) []*Policy {
	var applicable []*Policy
	for _, p := range all {
		if p.Selects(namespace, namespaceLabels) {
			applicable = append(applicable, p)
		}
	}
	slices.SortFunc(applicable, precedence)
	return applicable
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
