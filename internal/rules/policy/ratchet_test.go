package policy_test

import (
	"testing"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/test/builder"
)

// A mistake in a policy is old if the same part of a rule for the same annotation had it, wherever the rule is in the
// list.
func TestRatchetOfPolicies(t *testing.T) {
	const (
		bad   = "{annotation: DLB-listener-maxqps, min: 5s}"
		good  = "{annotation: DLB-scheduler, allowed: [source-ip]}"
		other = "{annotation: DLB-listener-maxconn, min: 5s}"
		high  = "{annotation: DLB-listener-maxqps, min: 9, max: 5}"
		value = "{annotation: DLB-scheduler, allowed: [source-ip, fastest]}"
		moved = "{annotation: DLB-scheduler, allowed: [fastest, source-ip]}"
		most  = "{annotation: DLB-listener-maxqps, max: 5}"
	)
	const defaults = "\ndefaults: {DLB-listener-maxqps: '8'}"
	tests := map[string]struct {
		old, current string
		denied       bool
	}{
		"same":                            {"rules: [" + bad + "]", "rules: [" + bad + "]", false},
		"moved":                           {"rules: [" + bad + "]", "rules: [" + good + ", " + bad + "]", false},
		"another annotation":              {"rules: [" + bad + "]", "rules: [" + other + "]", true},
		"another mistake":                 {"rules: [" + bad + "]", "rules: [" + high + "]", true},
		"an element moved":                {"rules: [" + value + "]", "rules: [" + moved + "]", false},
		"a default":                       {"rules: [" + most + "]" + defaults, "rules: [" + good + ", " + most + "]" + defaults, false},
		"a default and a stricter rule":   {"rules: [" + most + "]" + defaults, "rules: [{annotation: DLB-listener-maxqps, max: 4}]" + defaults, true},
		"a catalog":                       {"catalogs: [nonsense]", "catalogs: [mycloud, nonsense]", false},
		"another catalog":                 {"catalogs: [nonsense]", "catalogs: [nonsense, more]", true},
		"a default breaks a rule, as new": {"rules: [" + most + "]", "rules: [" + most + "]" + defaults, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, old := builder.Policy(t, v1alpha1.KindClusterLoadBalancerPolicy, "a", test.old)
			_, current := builder.Policy(t, v1alpha1.KindClusterLoadBalancerPolicy, "a", test.current)
			if got := finding.Ratchet(old, current); finding.Deny(got) != test.denied {
				t.Errorf("denied %t, want %t: %+v", !test.denied, test.denied, got)
			}
		})
	}
}
