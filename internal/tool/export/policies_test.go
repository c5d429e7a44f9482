package export_test

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/tool/export"
)

// The API server converts the Service once for the match conditions and three times for the validations, so a policy
// has one condition, and Services without problems get no further.
func TestPoliciesMatchProblems(t *testing.T) {
	// The API server does not compile longer expressions.
	const longest = 100_000
	p, err := export.Validating(library.BuiltIn().Services(), export.Class{Name: config.DefaultLoadBalancerClass, Default: true})
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, conditions []admissionregistrationv1.MatchCondition, first string) {
		if len(conditions) != 1 {
			t.Fatalf("%s has %d match conditions", name, len(conditions))
		}
		if got := conditions[0].Expression; len(got) >= longest || !strings.HasPrefix(got, first) {
			t.Errorf("%s: %d characters: %.100s", name, len(got), got)
		}
	}
	// Most Services are of other types.
	const first = "object.spec.type == 'LoadBalancer' && "
	for _, policy := range p.Policies {
		check(policy.Name, policy.Spec.MatchConditions, first)
		for _, v := range policy.Spec.Validations {
			if len(v.Expression) >= longest {
				t.Errorf("%s: a validation has %d characters", policy.Name, len(v.Expression))
			}
		}
	}
	m, _ := export.Mutating(export.Class{Name: config.DefaultLoadBalancerClass, Default: true})
	check(m.Name, m.Spec.MatchConditions, first)
	if len(m.Spec.Mutations) != 1 {
		t.Errorf("%d mutations, each of which copies the Service", len(m.Spec.Mutations))
	}
}

// Policies are about Services, so a catalog of other objects cannot be exported.
func TestCatalogsOfKindsAreNotExported(t *testing.T) {
	if _, err := export.Validating([]string{"alb"}, export.Class{}); err == nil || !strings.Contains(err.Error(), "kind Ingress") {
		t.Errorf("got %v", err)
	}
}
