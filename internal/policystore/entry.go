package policystore

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/policy"
)

// Entry is a policy of the cluster. It never changes: a newer version is another Entry.
type Entry struct {
	// Policy is compiled, with its bad parts left out. It stays the same pointer while the spec stays the same.
	Policy *policy.Policy
	// Findings are what is wrong with it.
	Findings []finding.Finding
	// UID, Generation and ResourceVersion are the object's.
	UID             types.UID
	Generation      int64
	ResourceVersion string
	// Status is what the object says at present; it must not be changed.
	Status v1alpha1.PolicyStatus
}

// keyOf identifies an object from an informer, which is of one of the kinds.
func keyOf(obj any) (policy.Key, bool) {
	switch p := obj.(type) {
	case *v1alpha1.LoadBalancerPolicy:
		return policy.Key{Kind: v1alpha1.KindLoadBalancerPolicy, Namespace: p.Namespace, Name: p.Name}, true
	case *v1alpha1.ClusterLoadBalancerPolicy:
		return policy.Key{Kind: v1alpha1.KindClusterLoadBalancerPolicy, Name: p.Name}, true
	default:
		return policy.Key{}, false
	}
}

// newEntry compiles an object, unless before, which may be nil, was made from the same spec.
func newEntry(obj any, before *Entry) (*Entry, error) {
	switch p := obj.(type) {
	case *v1alpha1.LoadBalancerPolicy:
		return entryOf(p.ObjectMeta, p.Status, before, func() (*policy.Policy, []finding.Finding) { return policy.Compile(p) }), nil
	case *v1alpha1.ClusterLoadBalancerPolicy:
		return entryOf(p.ObjectMeta, p.Status, before, func() (*policy.Policy, []finding.Finding) { return policy.CompileCluster(p) }), nil
	default:
		return nil, fmt.Errorf("unexpected %T among policies", obj)
	}
}

func entryOf(
	meta metav1.ObjectMeta, status v1alpha1.PolicyStatus, before *Entry, compile func() (*policy.Policy, []finding.Finding),
) *Entry {
	e := &Entry{UID: meta.UID, Generation: meta.Generation, ResourceVersion: meta.ResourceVersion, Status: status}
	if before != nil && before.UID == e.UID && before.Generation == e.Generation {
		// The API server counts the versions of the spec: a new status, which the controllers write often, is none.
		e.Policy, e.Findings = before.Policy, before.Findings
		return e
	}
	e.Policy, e.Findings = compile()
	return e
}
