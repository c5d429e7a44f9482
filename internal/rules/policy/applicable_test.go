package policy_test

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/policy"
)

// The policies that apply are bounded for each kind: those of a namespace must not displace those of the cluster.
func TestApplicableIsBounded(t *testing.T) {
	namespaces := map[string]map[string]string{"shop": nil, "other": nil}
	var all []*policy.Policy
	for i := range 150 {
		p := &v1alpha1.LoadBalancerPolicy{}
		p.Namespace, p.Name = "shop", fmt.Sprintf("p-%03d", i)
		one, _ := policy.Compile(p)
		c := &v1alpha1.ClusterLoadBalancerPolicy{}
		c.Name, c.Spec.Priority = fmt.Sprintf("c-%03d", i), int32(i)
		other, _ := policy.Compile(c)
		all = append(all, one, other)
	}
	// Those that were created later do not displace it, whatever their names.
	oldest := &v1alpha1.LoadBalancerPolicy{}
	oldest.Namespace, oldest.Name, oldest.CreationTimestamp = "old", "security", metav1.Unix(1, 0)
	first, _ := policy.Compile(oldest)
	crowd := []*policy.Policy{first}
	for i := range 30 {
		p := &v1alpha1.LoadBalancerPolicy{}
		p.Namespace, p.Name, p.CreationTimestamp = "old", fmt.Sprintf("a-%d", i), metav1.Unix(2, 0)
		later, _ := policy.Compile(p)
		crowd = append(crowd, later)
	}
	excluded, _ := first.Excluded(crowd, nil)
	if got := policy.Applicable(crowd, "old", nil); len(got) != 20 || !slices.Contains(got, first) || excluded != "" {
		t.Errorf("the oldest of %d policies is displaced", len(crowd))
	}

	got := policy.Applicable(all, "shop", nil)
	if len(got) != 120 {
		t.Fatalf("%d policies apply, want 120", len(got))
	}
	for at, want := range map[int]string{0: "p-000", 19: "p-019", 20: "c-149", 119: "c-050"} {
		if name := got[at].Key().Name; name != want {
			t.Errorf("policy %d is %s, want %s", at, name, want)
		}
	}
	applies := map[*policy.Policy]bool{}
	for _, p := range got {
		applies[p] = true
	}
	for _, p := range all {
		if excluded, inactive := p.Excluded(all, namespaces); (excluded == "") != applies[p] || inactive {
			t.Errorf("%s: applies %t, excluded from %q", p.Name(), applies[p], excluded)
		}
	}
	if n := len(policy.Applicable(all, "other", nil)); n != 100 {
		t.Errorf("%d policies apply to the other namespace, want 100", n)
	}
}
