package review_test

import (
	"fmt"
	"strings"
	"testing"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/test/builder"
)

// filled replaces the placeholders of a family's name, so that all of its spellings are keys of the same annotation.
var filled = strings.NewReplacer("{port}", "80", "{portname}", "http", "{portref}", "80", "{protocol}", "tcp", "{index}", "1", "{any}", "x")

// ruled compiles a policy of namespace shop with one rule and defaults.
func ruled(t *testing.T, rule v1alpha1.Rule, defaults map[string]string) []*policy.Policy {
	t.Helper()
	p := &v1alpha1.LoadBalancerPolicy{}
	p.Namespace, p.Name, p.Spec.Defaults = "shop", "limits", defaults
	if rule.Annotation != "" {
		p.Spec.Rules = []v1alpha1.Rule{rule}
	}
	compiled, findings := policy.Compile(p)
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	return []*policy.Policy{compiled}
}

// ofPolicies returns the fields with a finding of a policy with the id.
func ofPolicies(findings []finding.Finding, id string) (fields []string) {
	for _, f := range findings {
		if f.ID == id {
			fields = append(fields, f.Field)
		}
	}
	return fields
}

// A rule on any spelling of an annotation applies to every other one, in all catalogs, and so do defaults.
func TestRulesSeeAliases(t *testing.T) {
	aliases := 0
	for _, name := range library.BuiltIn().Names() {
		c, _ := library.BuiltIn().Find(name)
		if len(c.Kinds) > 0 {
			continue // policies are about Services
		}
		reviewer, err := review.New(catalog.Options{DefaultClass: true, Catalogs: []string{name}})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range c.Document().Annotations {
			for i, one := range a.Names() {
				for k, other := range a.Names() {
					if i == k {
						continue
					}
					aliases++
					checkAlias(t, reviewer, filled.Replace(one), filled.Replace(other), a.Valid)
				}
			}
		}
	}
	if aliases < 100 {
		t.Errorf("compared %d pairs", aliases)
	}
}

// checkAlias checks rules and defaults for one key with a Service that sets another one.
func checkAlias(t *testing.T, reviewer review.Reviewer, ruledKey, written, valid string) {
	t.Helper()
	svc := builder.Service(builder.Annotation(written, "x"))
	field := fmt.Sprint([]string{catalog.Path(written)})
	for id, rule := range map[string]v1alpha1.Rule{
		"policy-forbidden": {Annotation: ruledKey, Forbidden: true},
		"policy-allowed":   {Annotation: ruledKey, Allowed: []string{"y"}},
		"policy-pattern":   {Annotation: ruledKey, Pattern: "^y$"},
	} {
		got := reviewer.Review(nil, svc, ruled(t, rule, nil))
		if fields := ofPolicies(got, id); fmt.Sprint(fields) != field {
			t.Errorf("%s of %s: %s has findings at %v", id, ruledKey, written, fields)
		}
	}
	required := ruled(t, v1alpha1.Rule{Annotation: ruledKey, Required: true}, nil)
	if got := ofPolicies(reviewer.Review(nil, svc, required), "policy-required"); len(got) > 0 {
		t.Errorf("%s does not satisfy that %s is required", written, ruledKey)
	}
	if got := ofPolicies(reviewer.Review(nil, builder.Service(), required), "policy-required"); len(got) != 1 {
		t.Errorf("%s is not required", ruledKey)
	}
	defaults := map[string]string{ruledKey: valid}
	if got := reviewer.Defaults(svc, ruled(t, v1alpha1.Rule{}, defaults)); len(got) > 0 {
		t.Errorf("%s is set: got the defaults %v", written, got)
	}
	own, others := ruled(t, v1alpha1.Rule{}, defaults), ruled(t, v1alpha1.Rule{}, map[string]string{written: valid})
	parsed := reviewer.Parse(builder.Service())
	if got := policy.Defaults(parsed, append(own, others...), true); len(got) != 1 || got[0].Key != ruledKey {
		t.Errorf("two defaults of one annotation: got %v", got)
	}
	forbidden := ruled(t, v1alpha1.Rule{Annotation: ruledKey, Forbidden: true}, nil)
	if got := policy.Defaults(parsed, append(forbidden, others...), true); len(got) > 0 {
		t.Errorf("the default %s is written although %s is forbidden", written, ruledKey)
	}
}

// A key is not an alias in namespaces whose catalogs do not say so.
func TestAliasesOfSelectedCatalogs(t *testing.T) {
	reviewer, err := review.New(catalog.Options{DefaultClass: true, Catalogs: []string{"hcloud"}})
	if err != nil {
		t.Fatal(err)
	}
	svc := builder.Service(builder.Annotation("metallb.universe.tf/address-pool", "x"))
	policies := ruled(t, v1alpha1.Rule{Annotation: "metallb.io/address-pool", Forbidden: true}, nil)
	if got := ofPolicies(reviewer.Review(nil, svc, policies), "policy-forbidden"); len(got) > 0 {
		t.Errorf("without the catalog: %v", got)
	}
	selecting := &v1alpha1.ClusterLoadBalancerPolicy{}
	selecting.Spec.Catalogs = []string{"metallb"}
	selected, _ := policy.Compile(selecting)
	for name, findings := range map[string][]finding.Finding{
		"admission": reviewer.Review(nil, svc, append(policies, selected)),
		"status":    policy.Validate(review.Own("mycloud.io/dlb", true).Parse(svc).WithAliases([]string{"metallb"}), policies),
	} {
		if got := ofPolicies(findings, "policy-forbidden"); len(got) != 1 {
			t.Errorf("%s, with the catalog: %v", name, findings)
		}
	}
}
