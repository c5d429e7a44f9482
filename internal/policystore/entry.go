package policystore

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/policy"
)

// Entry is a policy of the cluster. It is immutable: a newer version is another Entry.
type Entry struct {
	// Policy is the compiled policy without its invalid parts. The pointer stays the same while the spec stays the
	// same.
	Policy *policy.Policy
	// Findings are the problems of the policy.
	Findings []finding.Finding
	// UID, Generation and ResourceVersion are those of the object.
	UID             types.UID
	Generation      int64
	ResourceVersion string
	// Status is the current status of the object; it must not be modified.
	Status v1alpha1.PolicyStatus
}

// keyOf returns the key of an object from an informer; ok is false if it is not a policy.
func keyOf(obj any) (key policy.Key, ok bool) {
	switch p := obj.(type) {
	case *v1alpha1.LoadBalancerPolicy:
		return policy.Key{Kind: v1alpha1.KindLoadBalancerPolicy, Namespace: p.Namespace, Name: p.Name}, true
	case *v1alpha1.ClusterLoadBalancerPolicy:
		return policy.Key{Kind: v1alpha1.KindClusterLoadBalancerPolicy, Name: p.Name}, true
	default:
		return policy.Key{}, false
	}
}

// newEntry compiles an object, unless before, which may be nil, has the same spec.
func newEntry(obj any, before *Entry) (*Entry, error) {
	switch p := obj.(type) {
	case *v1alpha1.LoadBalancerPolicy:
		compile := func() (*policy.Policy, []finding.Finding) { return policy.Compile(p) }
		return entryOf(p.ObjectMeta, p.Status, before, compile), nil
	case *v1alpha1.ClusterLoadBalancerPolicy:
		compile := func() (*policy.Policy, []finding.Finding) { return policy.CompileCluster(p) }
		return entryOf(p.ObjectMeta, p.Status, before, compile), nil
	default:
		return nil, fmt.Errorf("unexpected object of type %T, want a policy", obj)
	}
}

func entryOf(
	meta metav1.ObjectMeta, status v1alpha1.PolicyStatus, before *Entry,
	compile func() (*policy.Policy, []finding.Finding),
) *Entry {
	e := &Entry{UID: meta.UID, Generation: meta.Generation, ResourceVersion: meta.ResourceVersion, Status: status}
	if before != nil && before.UID == e.UID && before.Generation == e.Generation {
		// The generation counts changes of the spec and not of the status, which the controllers write often.
		e.Policy, e.Findings = before.Policy, before.Findings
		return e
	}
	e.Policy, e.Findings = compile()
	return e
}
