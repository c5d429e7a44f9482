package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/test/builder"
)

func texts(findings []finding.Finding) []string {
	var all []string
	for _, f := range findings {
		text := builder.Short(finding.Summary([]finding.Finding{f}))
		if f.Severity == finding.Warning {
			text = "warning: " + builder.Short(finding.Warnings([]finding.Finding{f})[0])
		}
		all = append(all, f.ID+" "+text)
	}
	return all
}

func TestCompile(t *testing.T) {
	tests := map[string]struct {
		spec string
		want []string
	}{
		"good": {"{defaults: {DLB-listener-maxqps: '5000'}, rules: [{annotation: DLB-listener-maxqps, min: 1, max: 20000}]}", nil},
		"several unknown keys": {
			"{defaults: {DLB-listner-maxqps: '5'}, rules: [{annotation: DLB-flavour, forbidden: true}]}",
			[]string{
				`policy-key spec.defaults[DLB-listner-maxqps]: Invalid value: "DLB-listner-maxqps": unknown annotation of mycloud; did you mean "DLB-listener-maxqps"?`,
				`policy-key spec.rules[0].annotation: Invalid value: "DLB-flavour": unknown annotation of mycloud; did you mean "DLB-flavor"?`,
			},
		},
		"port form": {
			"{defaults: {DLB-listener-maxqps.443: '5'}}",
			[]string{`policy-key spec.defaults[DLB-listener-maxqps.443]: Invalid value: "DLB-listener-maxqps.443": must not name a port: ports belong to single Services; use DLB-listener-maxqps`},
		},
		"invalid value": {
			"{defaults: {DLB-listener-maxqps: fast}}",
			[]string{`policy-value spec.defaults[DLB-listener-maxqps]: Invalid value: "fast": must be an integer between 1 and 1000000; for example 5000`},
		},
		"own default above the maximum": {
			"{defaults: {DLB-listener-maxqps: '30000'}, rules: [{annotation: DLB-listener-maxqps, max: 20000}]}",
			[]string{`policy-default spec.defaults[DLB-listener-maxqps]: Invalid value: "30000": exceeds the maximum of 20000 set by spec.rules[0].max; change the default or the rule`},
		},
		"own default forbidden": {
			"{defaults: {DLB-flavor: large}, rules: [{annotation: DLB-flavor, forbidden: true}]}",
			[]string{`policy-default spec.defaults[DLB-flavor]: Invalid value: "large": must not be set: forbidden by spec.rules[0].forbidden; change the default or the rule`},
		},
		"bounds of the wrong type": {
			"{rules: [{annotation: DLB-listener-maxqps, max: 1h}, {annotation: DLB-drain-timeout, min: 5, max: 10s}, {annotation: DLB-flavor, max: 3}]}",
			[]string{
				`policy-bound spec.rules[0].max: Invalid value: "1h": must be an integer without quotes; correct the bound`,
				`policy-silent-service warning: spec.rules[1].max: Services without the annotation break the rule, because their default is 30s; add a default to the policy, unless every Service must set the annotation`,
				`policy-bound spec.rules[1].min: Invalid value: "5": must be a duration with a unit, such as 30s or 1h30m; correct the bound`,
				`policy-bound spec.rules[2].max: Invalid value: "3": must not be set: the values of the annotation are neither integers nor durations; correct the bound`,
			},
		},
		"minimum above maximum": {
			"{rules: [{annotation: DLB-bandwidth-mbps, min: 10, max: 5}]}",
			[]string{`policy-bound spec.rules[0].min: Invalid value: "10": must not exceed max, 5; swap the two or correct one of them`},
		},
		"a list instead of an element": {
			"{rules: [{annotation: DLB-zones, allowed: [eu-1a, 'eu-1b,eu-1c']}]}",
			[]string{`policy-value spec.rules[0].allowed[1]: Invalid value: "eu-1b,eu-1c": must be one element of a list: elements are compared one by one; list the elements separately`},
		},
		"defaults that only one Service can have": {
			"{defaults: {DLB-load-balancer-id: lb-1, DLB-hostname: shop.example.com}}",
			[]string{
				`policy-key spec.defaults[DLB-hostname]: Invalid value: "shop.example.com": must not be a default: only one Service can have a given value; set it in that Service`,
				`policy-key spec.defaults[DLB-load-balancer-id]: Invalid value: "lb-1": must not be a default: only one Service can have a given value; set it in that Service`,
			},
		},
		"keys that software writes": {
			"{defaults: {kubectl.kubernetes.io/last-applied-configuration: '{}'}}",
			[]string{`policy-key spec.defaults[kubectl.kubernetes.io/last-applied-configuration]: Invalid value: "{}": must not be a default: keys beginning with kubectl.kubernetes.io/ or quaymaster.dev/ are written by software; remove it`},
		},
		"pattern that would take minutes": {
			"{rules: [{annotation: example.com/x, pattern: '(x*){1000}(x*){1000}y'}, {annotation: example.com/y, pattern: '^.{1,1000}$'}]}",
			[]string{`policy-expression spec.rules[0].pattern: Invalid value: "(x*){1000}(x*){1000}y": must be a regular expression in RE2 syntax: it has 6004 steps with all its repetitions, and at most 2000 are allowed; correct it`},
		},
		"invalid allowed values": {
			"{defaults: {DLB-network-type: private}, rules: [{annotation: DLB-network-type, allowed: [internal, private]}, {annotation: DLB-tags, allowed: [a=b]}]}",
			[]string{
				`policy-value spec.rules[0].allowed[0]: Invalid value: "internal": must be one of public, private; for example private`,
				`policy-value spec.rules[1].allowed: Invalid value: "a=b": must not be set: the annotation holds keys and values; use a pattern instead`,
			},
		},
		"invalid pattern": {
			"{rules: [{annotation: example.com/x, pattern: '('}]}",
			[]string{"policy-expression spec.rules[0].pattern: Invalid value: \"(\": must be a regular expression in RE2 syntax: error parsing regexp: missing closing ): `(`; correct it"},
		},
		"default that breaks the rule": {
			"{rules: [{annotation: DLB-network-type, allowed: [private]}]}",
			[]string{`policy-silent-service warning: spec.rules[0].allowed: Services without the annotation break the rule, because their default is public; add a default to the policy, unless every Service must set the annotation`},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, findings := builder.Policy(t, ofNamespace, "limits", test.spec)
			if diff := cmp.Diff(test.want, texts(findings)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompileBadSelector(t *testing.T) {
	p, findings := builder.Policy(t, ofCluster, "shared", "{namespaceSelector: {matchExpressions: [{key: tier, operator: Near}]}, defaults: {a/b: c}}")
	want := []string{`policy-selector spec.namespaceSelector: Invalid value: "": must be a label selector: "Near" is not a valid label selector operator; correct it; until then the policy applies to no namespace`}
	if diff := cmp.Diff(want, texts(findings)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if p.Selects("shop", nil) {
		t.Error("a policy with an invalid selector must not select a namespace")
	}
}

// A rule with an invalid part refuses every value of its annotation, with the enforcement of its policy: a mistake must
// not lift a limit. A Service without the annotation is not concerned.
func TestInvalidRulesRefuseEveryValue(t *testing.T) {
	const remedy = "remove the annotation, or ask the author of the policy to correct the rule"
	for rule, part := range map[string]string{
		"annotation: DLB-bandwidth-mbps, min: 10, max: 5":    "min",
		"annotation: DLB-bandwidth-mbps, min: 1h":            "min",
		"annotation: DLB-bandwidth-mbps, max: ten":           "max",
		"annotation: DLB-bandwidth-mbps, pattern: '('":       "pattern",
		"annotation: DLB-bandwidth-mbps, pattern: 'x{1001}'": "pattern",
	} {
		for enforcement, severity := range map[string]finding.Severity{
			"Deny": finding.Error, "Warn": finding.Warning, "Audit": finding.Audit,
		} {
			p, findings := builder.Policy(t, ofNamespace, "limits",
				"enforcement: "+enforcement+"\nrules: [{"+rule+", message: ask the edge team}]")
			if len(finding.Errors(findings)) != 1 {
				t.Errorf("%s: the policy has findings %v", rule, texts(findings))
			}
			got := policy.Validate(parse(builder.Service(builder.DLB("bandwidth-mbps", "5"))), []*policy.Policy{p})
			want := `cannot be checked: invalid ` + part + ` set by LoadBalancerPolicy "limits"`
			if len(got) != 1 || got[0].ID != "policy-"+part || got[0].Message != want || got[0].Remedy != remedy ||
				got[0].Severity != severity {
				t.Errorf("%s, %s: got findings %+v", rule, enforcement, got)
			}
			if got := policy.Validate(parse(builder.Service()), []*policy.Policy{p}); len(got) > 0 {
				t.Errorf("%s: without the annotation: %v", rule, texts(got))
			}
		}
	}
	for rule, want := range map[string]int{
		"annotation: example.com/x, min: fast": 1, "annotation: example.com/x, pattern: '['": 1,
		"annotation: example.com/y, pattern: '['": 0,
	} {
		p, _ := builder.Policy(t, ofNamespace, "limits", "rules: [{"+rule+"}]")
		svc := parse(builder.Service(builder.Annotation("example.com/x", "1")))
		if got := policy.Validate(svc, []*policy.Policy{p}); len(got) != want {
			t.Errorf("%s: got findings %v, want %d", rule, texts(got), want)
		}
	}
}

// Other parts of a policy apply in spite of a mistake.
func TestInvalidPartsAreLeftOut(t *testing.T) {
	p, findings := builder.Policy(t, ofNamespace, "limits", `
defaults: {DLB-listener-maxqps: fast, DLB-flavor: large}
rules: [{annotation: DLB-nothing, forbidden: true}, {annotation: DLB-scheduler, pattern: '('}, {annotation: DLB-network-type, allowed: [nonsense]}]`)
	if len(finding.Errors(findings)) != 4 {
		t.Fatalf("got findings %v, want 4", texts(findings))
	}
	svc := parse(builder.Service())
	svc = svc.With(policy.Values(policy.Defaults(svc, []*policy.Policy{p}, false)))
	if svc.Service.Annotations["service.beta.kubernetes.io/dlb-flavor"] != "large" {
		t.Errorf("the valid default is missing: %v", svc.Service.Annotations)
	}
	if got := policy.Validate(svc, []*policy.Policy{p}); len(got) != 1 || got[0].ID != "policy-allowed" {
		t.Errorf("got findings %v, want that a rule without valid values allows nothing", texts(got))
	}
}

func TestAgainst(t *testing.T) {
	namespaces := map[string]map[string]string{"shop": {"tier": "shared"}, "lab": {"tier": "own"}}
	const (
		shared = "namespaceSelector: {matchLabels: {tier: shared}}\n"
		limit  = "rules: [{annotation: DLB-listener-maxqps, max: 6000}]\n"
		qps8k  = "defaults: {DLB-listener-maxqps: '8000'}\n"
		qps5k  = "defaults: {DLB-listener-maxqps: '5000'}\n"
	)
	type given struct{ kind, name, spec string }
	tests := map[string]struct {
		policy, other given
		want          []string
	}{
		"no common namespace": {given{ofNamespace, "limits", qps8k}, given{ofCluster, "own", "namespaceSelector: {matchLabels: {tier: own}}\n" + limit}, nil},
		"a default against another's rule": {
			given{ofNamespace, "limits", qps8k}, given{ofCluster, "shared", shared + limit},
			[]string{`policy-default spec.defaults[DLB-listener-maxqps]: Invalid value: "8000": exceeds the maximum of 6000 set by spec.rules[0].max of ClusterLoadBalancerPolicy "shared", which also applies to namespace "shop"; change the default`},
		},
		"a default against a rule with enforcement Audit": {
			given{ofNamespace, "limits", qps8k}, given{ofCluster, "shared", shared + "enforcement: Audit\n" + limit},
			[]string{`policy-default warning: spec.defaults[DLB-listener-maxqps]: Invalid value: "8000": exceeds the maximum of 6000 set by spec.rules[0].max of ClusterLoadBalancerPolicy "shared", which also applies to namespace "shop"; change the default`},
		},
		"a rule against another's default": {
			given{ofCluster, "shared", shared + limit + qps5k}, given{ofNamespace, "limits", qps8k},
			[]string{`policy-default-of-others warning: spec.rules[0].max: the default 8000 of LoadBalancerPolicy "limits", which also applies to namespace "shop", breaks the rule and will no longer be written; change that default`},
		},
		"equal priority": {
			given{ofCluster, "b", shared + qps8k}, given{ofCluster, "a", qps5k},
			[]string{`policy-conflict warning: spec.defaults[DLB-listener-maxqps]: conflicts with the default 5000 of ClusterLoadBalancerPolicy "a", which has the same priority; ClusterLoadBalancerPolicy "a" wins, the first by name; set different priorities, or the same default`},
		},
		"other priority":   {given{ofCluster, "b", "priority: 1\n" + shared + qps8k}, given{ofCluster, "a", qps5k}, nil},
		"the same default": {given{ofCluster, "b", qps8k}, given{ofCluster, "a", qps8k}, nil},
		"two of one namespace": {
			given{ofNamespace, "a", qps8k}, given{ofNamespace, "b", qps5k},
			[]string{`policy-conflict warning: spec.defaults[DLB-listener-maxqps]: conflicts with the default 5000 of LoadBalancerPolicy "b" in the same namespace; LoadBalancerPolicy "a" wins, the first by name; remove one of the two`},
		},
		"selects nothing": {
			given{ofCluster, "b", "namespaceSelector: {matchLabels: {tier: gold}}\n" + qps8k}, given{ofCluster, "a", qps5k},
			[]string{`policy-selects-nothing warning: spec.namespaceSelector: selects no namespace; label namespaces, or correct the selector`},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := builder.ValidPolicy(t, test.policy.kind, test.policy.name, test.policy.spec)
			other := builder.ValidPolicy(t, test.other.kind, test.other.name, test.other.spec)
			got := texts(policy.Against(p, []*policy.Policy{p, other}, namespaces))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
