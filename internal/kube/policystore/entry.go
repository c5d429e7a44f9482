package policystore

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/visible"
)

// Entry is a policy of the cluster. It is immutable: a newer version is another Entry.
type Entry struct {
	// Policy is the policy. The pointer stays the same while the spec stays the same.
	Policy *policy.Policy
	// Problems describes the errors of the policy; empty if there are none, and without Options.Status.
	Problems string
	// UID, Generation and ResourceVersion are those of the object.
	UID             types.UID
	Generation      int64
	ResourceVersion string
	// Status is the current status of the object, with Options.Status; it must not be modified.
	Status v1alpha1.PolicyStatus
}

// maxProblems bounds Entry.Problems: a policy may have many.
const maxProblems = 4096

// newEntry returns the entry of a policy. It keeps the policy of before, which may be nil, if that has the same spec.
func (s *Store) newEntry(obj metav1.Object, before *Entry) *Entry {
	e := &Entry{UID: obj.GetUID(), Generation: obj.GetGeneration(), ResourceVersion: obj.GetResourceVersion()}
	// The generation counts changes of the spec and not of the status, which the controllers write often.
	if before != nil && before.UID == e.UID && before.Generation == e.Generation && before.Policy.Held() {
		e.Policy, e.Problems = before.Policy, before.Problems
	} else if e.Policy = policy.New(obj, s.cache); s.status {
		e.Problems = visible.Shorten(finding.Summary(e.Policy.Findings()), maxProblems)
	}
	if !s.status {
		return e
	}
	switch p := obj.(type) {
	case *v1alpha1.LoadBalancerPolicy:
		e.Status = p.Status
	case *v1alpha1.ClusterLoadBalancerPolicy:
		e.Status = p.Status
	}
	return e
}
