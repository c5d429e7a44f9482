package policies_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/test/harness/env"
)

// storeMistaken stores a policy with two invalid parts for Services of the namespace mistaken.
func storeMistaken(ctx context.Context, kube client.Client) error {
	return kube.Create(ctx, &v1alpha1.ClusterLoadBalancerPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "mistaken"},
		Spec: v1alpha1.ClusterLoadBalancerPolicySpec{
			NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{"team": "mistaken"}},
			LoadBalancerPolicySpec: v1alpha1.LoadBalancerPolicySpec{
				Defaults: map[string]string{maxQPS: "3000", scheduler: "fastest"},
				Rules:    []v1alpha1.Rule{{Annotation: maxQPS, Max: new(intstr.FromInt32(4000))}, {Annotation: prefix + "listener-maxqsp", Required: true}},
			},
		},
	})
}

// An invalid policy was stored while the webhook was down.
func TestMistakenPolicyIsThere(t *testing.T) {
	s := newSpace(t, shared.Env, "mistaken")
	s.becomes("3000")
	s.known(`ClusterLoadBalancerPolicy "mistaken"`, "5000")
	annotations := s.create(s.service("web")).Annotations
	want := map[string]string{
		maxQPS: "3000", prefix + "listener-idle-timeout": "60s",
		defaulted: prefix + "listener-idle-timeout=built-in," + maxQPS + "=ClusterLoadBalancerPolicy/mistaken",
	}
	if diff := cmp.Diff(want, annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	status := s.violating("mistaken", 0, 1)
	got := condition(status.Conditions, v1alpha1.ConditionAccepted)
	for _, part := range []string{
		"False Invalid: the policy applies except for its invalid parts: ",
		`spec.defaults[` + scheduler + `]: Invalid value: "fastest"`,
		`spec.rules[1].annotation: Invalid value: "` + prefix + `listener-maxqsp"`,
	} {
		if !strings.Contains(got, part) {
			t.Errorf("condition %q lacks %q", got, part)
		}
	}
	if out := s.admin("", "get", "clbpol", "mistaken", "-o", `jsonpath={.status.conditions[?(@.type=="Accepted")].status}`); out.Stdout != "False" {
		t.Errorf("kubectl printed %+v", out)
	}
}

func TestBadPolicies(t *testing.T) {
	s := newSpace(t, shared.Env, "defined")
	tests := map[string]struct {
		spec string
		// says are parts of kubectl's output.
		says []string
	}{
		"a default that breaks its own rule": {
			`{defaults: {` + maxQPS + `: "5000"}, rules: [{annotation: ` + maxQPS + `, max: 2000}]}`,
			[]string{
				`The LoadBalancerPolicy "bad" is invalid: `,
				`spec.defaults[` + maxQPS + `]: Invalid value: "5000": exceeds the maximum of 2000 set`, `spec.rules[0].max`,
			},
		},
		"several mistakes": {
			`{defaults: {` + scheduler + `: fastest}, rules: [{annotation: ` + maxQPS + `, max: 30s}, {annotation: ` + prefix + `sheduler, required: true}]}`,
			[]string{
				"\n* spec.defaults[" + scheduler + `]: Invalid value: "fastest"`,
				"\n* spec.rules[0].max: Invalid value: \"30s\"",
				"\n* spec.rules[1].annotation: Invalid value: \"" + prefix + `sheduler"`,
			},
		},
		"everything at once": {
			`{enforcement: deny, defaults: {` + defaulted + `: x}, rules: [{annotation: example.com/nothing}, ` +
				`{annotation: ` + maxQPS + `, forbidden: true, min: 1}, {annotation: example.com/min, min: 3, max: 2}, ` +
				`{annotation: example.com/mixed, min: 3, max: 20s}, {annotation: ` + prefix + `sheduler, required: true}]}`,
			[]string{
				"\n* spec.enforcement: Unsupported value: \"deny\": must be one of Deny, Warn, Audit; did you mean \"Deny\"?",
				"\n* spec.defaults[" + defaulted + `]: Invalid value: "x": must not be a default: keys beginning with`,
				"\n* spec.rules[0]: Invalid value: \"\": must set at least one of min, max, allowed, pattern, required or forbidden; add one",
				"\n* spec.rules[1].forbidden: Invalid value: \"true\": must not be combined with other limits",
				"\n* spec.rules[2].min: Invalid value: \"3\": must not exceed max, 2; swap the two",
				"\n* spec.rules[3].min: Invalid value: \"3\": must be of the type of max, 20s",
				"\n* spec.rules[4].annotation: Invalid value: \"" + prefix + `sheduler": unknown annotation of mycloud; did you mean "` + prefix + `scheduler"?`,
			},
		},
		"nothing at all":   {`{enforcement: Warn}`, []string{"spec: Invalid value: \"\": must have defaults or rules; add one of them"}},
		"an unknown field": {`{defaults: {` + maxQPS + `: "1"}, enforcment: Warn}`, []string{`unknown field "spec.enforcment"`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := *s
			in.t = t
			out := in.user("apiVersion: quaymaster.dev/v1alpha1\nkind: LoadBalancerPolicy\nmetadata: {name: bad}\nspec: "+test.spec, "create", "-f", "-")
			if out.Code != 1 || out.Stdout != "" {
				t.Errorf("it was created: %+v", out)
			}
			for _, part := range test.says {
				if !strings.Contains(out.Stderr, part) {
					t.Errorf("kubectl printed\n%s\nwithout %q", out.Stderr, part)
				}
			}
		})
	}
}

// A default that another policy of the same namespace forbids would never be written.
func TestPolicyAgainstAnother(t *testing.T) {
	s := newSpace(t, shared.Env, "against")
	s.apply(s.limit("above", "Deny", 2000))
	s.known(`ClusterLoadBalancerPolicy "above"`, "3000")
	const own = "apiVersion: quaymaster.dev/v1alpha1\nkind: LoadBalancerPolicy\nmetadata: {name: own}\n" +
		`spec: {defaults: {` + maxQPS + `: "3000"}}`
	want := env.Output{
		Stderr: `The LoadBalancerPolicy "own" is invalid: spec.defaults[` + maxQPS + `]: Invalid value: "3000": exceeds the maximum of 2000 set ` +
			"by spec.rules[0].max of ClusterLoadBalancerPolicy \"above\", which also applies to namespace \"against\"; change the default\n",
		Code: 1,
	}
	if diff := cmp.Diff(want, s.user(own, "create", "-f", "-")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What users look up with kubectl.
func TestPoliciesAreDescribed(t *testing.T) {
	s := newSpace(t, shared.Env, "described")
	for question, answer := range map[string]string{
		"explain lbpol.spec.rules":                    "FIELD: rules <[]Object>",
		"explain lbpol.spec.rules.pattern":            "regular expression (RE2)",
		"explain clbpol.spec.priority":                "FIELD: priority <integer>",
		"explain clbpol.status.violating":             "the number of those Services that break a rule",
		"get lbpol,clbpol -o name":                    v1alpha1.Group + "/",
		"get quaymaster -o name":                      "clusterloadbalancerpolicy." + v1alpha1.Group + "/mistaken",
		"get loadbalancerpolicies -o name":            "",
		"api-resources --api-group=" + v1alpha1.Group: "clbpol",
	} {
		t.Run(question, func(t *testing.T) {
			in := *s
			in.t = t
			if out := in.admin("", strings.Fields(question)...); out.Code != 0 || !strings.Contains(out.Stdout, answer) {
				t.Errorf("kubectl printed %+v, want %q", out, answer)
			}
		})
	}
}
