package policy_test

import (
	"fmt"
	"testing"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/policy"
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
		other, _ := policy.CompileCluster(c)
		all = append(all, one, other)
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
		if displaced := p.Displaced(all, namespaces); (displaced == "") != applies[p] {
			t.Errorf("%s: applies %t, displaced in %q", p.Name(), applies[p], displaced)
		}
	}
	if n := len(policy.Applicable(all, "other", nil)); n != 100 {
		t.Errorf("%d policies apply to the other namespace, want 100", n)
	}
}
