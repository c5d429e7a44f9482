package policystore_test

import (
	"fmt"
	"testing"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/policy"
)

// BenchmarkOpen compiles the most expensive policies that apply to a namespace, as a request does after others have
// pushed them out of the cache.
func BenchmarkOpen(b *testing.B) {
	unknown := func(n int) []v1alpha1.Rule {
		rules := make([]v1alpha1.Rule, n)
		for i := range rules {
			rules[i] = v1alpha1.Rule{Annotation: fmt.Sprintf("service.beta.kubernetes.io/dlb-unknown-%d", i), Forbidden: true}
		}
		return rules
	}
	defaults := map[string]string{}
	for i := range 64 {
		defaults[fmt.Sprintf("service.beta.kubernetes.io/aws-load-balancer-x%d", i)] = "x"
	}
	for name, spec := range map[string]v1alpha1.LoadBalancerPolicySpec{
		"patterns":     {Rules: patterns(5)},
		"lists":        {Rules: lists(50 << 10)},
		"unknown keys": {Rules: unknown(64), Defaults: defaults},
	} {
		b.Run(name, func(b *testing.B) {
			p := lbpol("shop", "limits", func(p *v1alpha1.LoadBalancerPolicy) { p.Spec = spec })
			for b.Loop() {
				if opened := policy.Open([]*policy.Policy{policy.New(p, &policy.Cache{})}); !opened[0].Held() {
					b.Fatal("exceeds the limit")
				}
			}
		})
	}
}
