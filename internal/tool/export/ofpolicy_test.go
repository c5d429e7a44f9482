package export_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/internal/tool/export"
	"quaymaster.dev/test/builder"
)

// Exported rules deny what the engine denies, with the same words.
func TestRulesOfPolicies(t *testing.T) {
	const dlb, other = "service.beta.kubernetes.io/dlb-", "example.com/other"
	number := func(n int) *intstr.IntOrString { return new(intstr.FromInt32(int32(n))) }
	duration := func(text string) *intstr.IntOrString { return new(intstr.FromString(text)) }
	reviewer, err := review.New(catalog.Options{Catalogs: []string{"mycloud"}, Class: config.DefaultLoadBalancerClass, DefaultClass: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		rule   v1alpha1.Rule
		values []string
	}{
		"max":               {v1alpha1.Rule{Annotation: dlb + "listener-maxqps", Max: number(20000)}, []string{"5", "20000", "20001", "999999"}},
		"min":               {v1alpha1.Rule{Annotation: dlb + "listener-maxqps", Min: number(100)}, []string{"5", "100"}},
		"duration":          {v1alpha1.Rule{Annotation: dlb + "listener-idle-timeout", Max: duration("1m")}, []string{"30s", "1m", "60s", "61s", "2m"}},
		"allowed":           {v1alpha1.Rule{Annotation: dlb + "scheduler", Allowed: []string{"round-robin"}, Message: "ask us"}, []string{"round-robin", "source-ip"}},
		"pattern":           {v1alpha1.Rule{Annotation: other, Pattern: "^[a-z]+$"}, []string{"a", "A", "a1", ""}},
		"forbidden":         {v1alpha1.Rule{Annotation: other, Forbidden: true}, []string{"a", ""}},
		"required":          {v1alpha1.Rule{Annotation: other, Required: true}, []string{"a"}},
		"allowed, unknown":  {v1alpha1.Rule{Annotation: other, Allowed: []string{"a", `b'"\`}}, []string{"a", `b'"\`, "c"}},
		"max, unknown":      {v1alpha1.Rule{Annotation: other, Max: number(5)}, []string{"5", "6", "x", "", "99999999999999999999"}},
		"duration, unknown": {v1alpha1.Rule{Annotation: other, Min: duration("30s")}, []string{"30s", "29s", "30", "1h", "1.5m"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &v1alpha1.LoadBalancerPolicy{}
			p.Namespace, p.Name, p.Spec.Rules = "shop", "limits", []v1alpha1.Rule{tc.rule}
			limits, findings := policy.Compile(p)
			if finding.Deny(findings) {
				t.Fatal(findings)
			}
			var exported export.Policies
			if err := exported.OfNamespace(p, export.Class{Name: config.DefaultLoadBalancerClass, Default: true}); err != nil {
				t.Fatal(err)
			}
			v := compiled(t, exported.Policies[0])
			for _, value := range append(tc.values, "(none)") {
				svc := builder.Service()
				svc.Namespace = "shop"
				if value != "(none)" {
					builder.Annotation(tc.rule.Annotation, value)(svc)
				} else if tc.rule.Required == (tc.rule.Annotation != other) {
					continue // defaults are not exported
				}
				var want []string
				for _, f := range finding.Errors(reviewer.Review(nil, svc, []*policy.Policy{limits})) {
					if strings.HasPrefix(f.ID, "policy-") {
						want = append(want, f.Field+": "+f.Message+"; "+f.Remedy)
					}
				}
				got := denials(t, v, svc)
				slices.Sort(got)
				slices.Sort(want)
				if len(got) != len(want) {
					t.Errorf("%q: %s", value, cmp.Diff(want, got))
				}
				for i := range min(len(got), len(want)) {
					if before, _, _ := strings.Cut(got[i], " round-robin"); !strings.HasPrefix(want[i], before[:min(len(before), 60)]) {
						t.Errorf("%q: got %s, want %s", value, got[i], want[i])
					}
				}
			}
		})
	}
}

// What a ValidatingAdmissionPolicy cannot do is listed.
func TestUnsaidOfPolicies(t *testing.T) {
	p := &v1alpha1.ClusterLoadBalancerPolicy{}
	p.Name, p.Spec.Catalogs = "all", []string{"hcloud"}
	p.Spec.Defaults = map[string]string{"example.com/x": "y"}
	p.Spec.Enforcement = v1alpha1.EnforcementWarn
	p.Spec.NamespaceSelector.MatchLabels = map[string]string{"team": "a"}
	p.Spec.Rules = []v1alpha1.Rule{{Annotation: "example.com/x", Forbidden: true}}
	var exported export.Policies
	if err := exported.OfCluster(p, export.Class{}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range exported.Unsaid {
		got = append(got, u.Catalog+" "+u.Field)
	}
	if diff := cmp.Diff([]string{"all spec.catalogs", "all spec.defaults"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b := exported.Bindings[0].Spec
	if b.ValidationActions[0] != "Warn" || b.MatchResources.NamespaceSelector.MatchLabels["team"] != "a" {
		t.Errorf("%+v", b)
	}
}
