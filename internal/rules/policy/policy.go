// Package policy applies LoadBalancerPolicies and ClusterLoadBalancerPolicies to Services: it selects the policies that
// apply, their defaults, and the rules that a Service breaks. Admission, the controllers and the status of policies
// share it.
package policy

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/finding"
)

// Key is a policy's identity.
type Key struct {
	// Kind is one of the kinds of v1alpha1.
	Kind string
	// Namespace is empty for a cluster policy.
	Namespace, Name string
}

// Policy is a policy of the cluster. Its defaults and rules are compiled by Compile or, for a policy that a Store holds,
// by Open.
type Policy struct {
	*head
	// parts is nil until the policy is opened.
	*parts
	// inactive is true if the policies of its namespaces exceed what is evaluated, so that it refuses every Service.
	inactive bool
}

// head is what decides where a policy applies.
type head struct {
	key         Key
	enforcement v1alpha1.Enforcement
	// created is when the object was created; zero if that is not known.
	created  time.Time
	priority int32
	// selector selects the namespaces of a cluster policy.
	selector labels.Selector
	// catalogs are the catalogs that a cluster policy selects; nil if it selects none.
	catalogs []string
	// problems are the findings about all but the annotations.
	problems []finding.Finding
	size     size
	source   source
	// cache opens the policy; nil for one that Compile returned.
	cache *Cache
}

// parts are the compiled defaults and rules of a policy.
type parts struct {
	defaults map[string]string
	// keys are the keys of the defaults, sorted.
	keys  []string
	rules []rule
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

// off returns the policy as an inactive one.
func (p *Policy) off() *Policy { return &Policy{head: p.head, parts: &parts{}, inactive: true} }

// Catalogs returns the catalogs that the policies of a namespace select; ok is false if none does.
func Catalogs(applicable []*Policy) (names []string, ok bool) {
	at := slices.IndexFunc(applicable, func(p *Policy) bool { return p.catalogs != nil })
	if at < 0 {
		return nil, false
	}
	return applicable[at].catalogs, true
}
