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

// Policy is a policy ready to be applied. It never changes.
type Policy struct {
	key         Key
	enforcement v1alpha1.Enforcement
	priority    int32
	// selector is of the namespaces of a cluster policy.
	selector labels.Selector
	defaults map[string]string
	rules    []rule
	// catalogs are those that a cluster policy chooses; nil if it does not.
	catalogs []string
}

// Key identifies the policy.
func (p *Policy) Key() Key { return p.key }

// Name returns the policy's name in messages, such as ClusterLoadBalancerPolicy "shared".
func (p *Policy) Name() string { return fmt.Sprintf("%s %q", p.key.Kind, p.key.Name) }

// Enforcement is what happens to Services that break a rule.
func (p *Policy) Enforcement() v1alpha1.Enforcement { return p.enforcement }

// Selects tells whether the policy applies to the Services of a namespace with these labels.
func (p *Policy) Selects(namespace string, namespaceLabels map[string]string) bool {
	if p.key.Kind == v1alpha1.KindLoadBalancerPolicy {
		return p.key.Namespace == namespace
	}
	return p.selector.Matches(labels.Set(namespaceLabels))
}

// Catalogs returns the catalogs that the policies of a namespace choose; ok is false if none does.
func Catalogs(applicable []*Policy) (names []string, ok bool) {
	for _, p := range applicable {
		if p.catalogs != nil {
			return p.catalogs, true
		}
	}
	return nil, false
}

// Applicable returns the policies that apply to a namespace, in the order in which their defaults win: those of the namespace,
// then those of the cluster by priority, equals by name.
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

// precedence is negative if the defaults of a win over those of b.
func precedence(a, b *Policy) int { return cmp.Or(rank(a, b), cmp.Compare(a.key.Name, b.key.Name)) }

// rank is precedence without the last resort of names: 0 is a conflict.
func rank(a, b *Policy) int {
	return cmp.Or(cmp.Compare(scope(a), scope(b)), cmp.Compare(b.priority, a.priority))
}

// scope orders policies of a namespace before those of the cluster.
func scope(p *Policy) int {
	if p.key.Kind == v1alpha1.KindLoadBalancerPolicy {
		return 0
	}
	return 1
}
