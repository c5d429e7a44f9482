package policy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quaymaster.dev/api/v1alpha1"
	engine "quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/test/harness/admission"
	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/policy"
)

const (
	maxQPS = "service.beta.kubernetes.io/dlb-listener-maxqps"
	flavor = "service.beta.kubernetes.io/dlb-flavor"
)

// cluster implements Policies with the namespaces shop, labeled tier=edge, and lab.
type cluster struct {
	policies []*engine.Policy
	failure  error
}

func (c cluster) Others(except engine.Key) ([]*engine.Policy, map[string]map[string]string, error) {
	others := slices.DeleteFunc(slices.Clone(c.policies), func(p *engine.Policy) bool { return p.Key() == except })
	return others, map[string]map[string]string{"shop": {"tier": "edge"}, "lab": nil}, c.failure
}

// lbpol returns a valid policy in namespace shop with changes applied.
func lbpol(change ...func(*v1alpha1.LoadBalancerPolicy)) *v1alpha1.LoadBalancerPolicy {
	p := &v1alpha1.LoadBalancerPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "quaymaster.dev/v1alpha1", Kind: "LoadBalancerPolicy"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "limits"},
		Spec: v1alpha1.LoadBalancerPolicySpec{
			Defaults: map[string]string{maxQPS: "5000"},
			Rules:    []v1alpha1.Rule{{Annotation: maxQPS, Max: new(intstr.FromInt32(20000))}},
		},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func named(name string) func(*v1alpha1.LoadBalancerPolicy) {
	return func(p *v1alpha1.LoadBalancerPolicy) { p.Name = name }
}

func withDefault(key, value string) func(*v1alpha1.LoadBalancerPolicy) {
	return func(p *v1alpha1.LoadBalancerPolicy) { p.Spec.Defaults[key] = value }
}

func clbpol(name string, selector map[string]string, spec v1alpha1.LoadBalancerPolicySpec) *v1alpha1.ClusterLoadBalancerPolicy {
	return &v1alpha1.ClusterLoadBalancerPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "quaymaster.dev/v1alpha1", Kind: "ClusterLoadBalancerPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.ClusterLoadBalancerPolicySpec{
			NamespaceSelector: metav1.LabelSelector{MatchLabels: selector}, LoadBalancerPolicySpec: spec,
		},
	}
}

// shared returns a cluster policy that limits maxqps in namespaces of tier edge.
func shared(t *testing.T, maximum int32) *engine.Policy {
	t.Helper()
	p, findings := engine.Compile(clbpol("shared", map[string]string{"tier": "edge"}, v1alpha1.LoadBalancerPolicySpec{
		Defaults: map[string]string{maxQPS: "1000"},
		Rules:    []v1alpha1.Rule{{Annotation: maxQPS, Max: new(intstr.FromInt32(maximum))}},
	}))
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	return p
}

func encode(t *testing.T, object any) runtime.RawExtension {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: raw}
}

func create(t *testing.T, object any) *admissionv1.AdmissionRequest {
	t.Helper()
	return &admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: encode(t, object)}
}

func update(t *testing.T, from, to any) *admissionv1.AdmissionRequest {
	t.Helper()
	return &admissionv1.AdmissionRequest{Operation: admissionv1.Update, Object: encode(t, to), OldObject: encode(t, from)}
}

func TestValidator(t *testing.T) {
	const head = "LoadBalancerPolicy.quaymaster.dev \"limits\" is invalid: "
	bad := withDefault(maxQPS, "30000")
	expensive := func(p *v1alpha1.LoadBalancerPolicy) {
		for i := range 4 {
			p.Spec.Rules = append(p.Spec.Rules, v1alpha1.Rule{Annotation: fmt.Sprintf("example.com/%d", i), Pattern: "^a{1000}a{990}$"})
		}
	}
	many := make([]*engine.Policy, 20)
	for i := range many {
		many[i] = compiled(lbpol(named(fmt.Sprintf("p-%d", i))))
	}
	const tooMany = "spec: Forbidden: a namespace must have at most 20 policies of the kind; with this one, it has 21; " +
		"merge or shorten policies, or delete some"
	for name, test := range map[string]struct {
		request  *admissionv1.AdmissionRequest
		policies []*engine.Policy
		message  string
		warnings []string
	}{
		"good": {request: create(t, lbpol())},
		"a default against its own rule": {
			request: create(t, lbpol(bad)),
			message: head + "spec.defaults[" + maxQPS + `]: Invalid value: "30000": exceeds the maximum of 20000 set by spec.rules[0].max; change the default or the rule`,
		},
		"several problems": {
			request: create(t, lbpol(bad, withDefault(flavor, "Large"))),
			message: head + "[spec.defaults[" + flavor + `]: Invalid value: "Large": must be a DNS label (at most 63 of a-z, 0-9 and '-', beginning and ending with a letter or digit); for example large, ` +
				"spec.defaults[" + maxQPS + `]: Invalid value: "30000": exceeds the maximum of 20000 set by spec.rules[0].max; change the default or the rule]`,
		},
		"a default against a rule of the cluster": {
			request: create(t, lbpol()), policies: []*engine.Policy{shared(t, 2000)},
			message: head + "spec.defaults[" + maxQPS + `]: Invalid value: "5000": exceeds the maximum of 2000 set by spec.rules[0].max of ` +
				`ClusterLoadBalancerPolicy "shared", which also applies to namespace "shop"; change the default`,
		},
		"a rule of the cluster that does not apply": {
			request:  create(t, lbpol(func(p *v1alpha1.LoadBalancerPolicy) { p.Namespace = "lab" })),
			policies: []*engine.Policy{shared(t, 2000)},
		},
		"an old problem stays": {
			request: update(t, lbpol(bad), lbpol(bad, withDefault(flavor, "large"))),
			warnings: []string{"allowed because it was already set: spec.defaults[" + maxQPS +
				`]: Invalid value: "30000": exceeds the maximum of 20000 set by spec.rules[0].max; change the default or the rule`},
		},
		"the rule of the cluster is newer": {
			request: update(t, lbpol(), lbpol(withDefault(flavor, "large"))), policies: []*engine.Policy{shared(t, 2000)},
			warnings: []string{"allowed because it was already set: spec.defaults[" + maxQPS + `]: Invalid value: "5000": exceeds the maximum of ` +
				`2000 set by spec.rules[0].max of ClusterLoadBalancerPolicy "shared", which also applies to namespace "shop"; change the default`},
		},
		"an update introduces the problem": {
			request: update(t, lbpol(), lbpol(bad)),
			message: head + "spec.defaults[" + maxQPS + `]: Invalid value: "30000": exceeds the maximum of 20000 set by spec.rules[0].max; change the default or the rule`,
		},
		"labels of a bad one change": {
			request: update(t, lbpol(bad), lbpol(bad, func(p *v1alpha1.LoadBalancerPolicy) { p.Labels = map[string]string{"a": "b"} })),
		},
		"finalizers of one being deleted": {
			request: update(t, lbpol(), lbpol(bad, func(p *v1alpha1.LoadBalancerPolicy) {
				p.DeletionTimestamp = new(metav1.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
			})),
		},
		"more steps than one policy may have": {
			request: create(t, lbpol(expensive, func(p *v1alpha1.LoadBalancerPolicy) { expensive(p) })),
			message: head + "spec: Forbidden: a namespace must have policies with patterns of at most 10000 steps in all; " +
				"they have 11971 or more; merge or shorten policies, or delete some",
		},
		"more steps than the policies of a namespace may have": {
			request:  create(t, lbpol(expensive)),
			policies: []*engine.Policy{compiled(lbpol(named("other"), expensive))},
			message: head + "spec: Forbidden: a namespace must have policies with patterns of at most 10000 steps in all; " +
				"they have 15962 or more; merge or shorten policies, or delete some",
		},
		"more bytes than one policy may have": {
			request: create(t, lbpol(func(p *v1alpha1.LoadBalancerPolicy) {
				p.Spec.Rules[0].Allowed = []string{strings.Repeat("x", 32768), strings.Repeat("y", 32768)}
			})),
			message: head + "spec: Forbidden: a namespace must have policies of at most 65536 bytes in all; they have 65710; " +
				"merge or shorten policies, or delete some",
		},
		"one of too many": {request: create(t, lbpol()), policies: many, message: head + tooMany},
		"one of too many that exist": {
			request: update(t, lbpol(), lbpol(withDefault(flavor, "large"))), policies: many,
			warnings: []string{"allowed because it was already set: " + tooMany},
		},
		"deletion": {request: &admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: encode(t, lbpol(bad))}},
		"its old version is not one of the others": {
			request: update(t, lbpol(), lbpol(withDefault(maxQPS, "100"))), policies: []*engine.Policy{compiled(lbpol())},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := policy.NewValidator(policy.Options{Policies: cluster{policies: test.policies}})
			got, err := admit(t, v, test.request)
			if err != nil {
				t.Fatal(err)
			}
			message := ""
			if got.Result != nil {
				message = got.Result.Message
			}
			if diff := cmp.Diff(test.message, message); diff != "" || got.Allowed != (test.message == "") {
				t.Errorf("allowed %t, message (-want +got):\n%s", got.Allowed, diff)
			}
			if diff := cmp.Diff(test.warnings, got.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func compiled(p *v1alpha1.LoadBalancerPolicy) *engine.Policy {
	compiled, _ := engine.Compile(p)
	return compiled
}

func TestClusterValidator(t *testing.T) {
	limits := compiled(lbpol())
	tight := v1alpha1.LoadBalancerPolicySpec{
		Defaults: map[string]string{maxQPS: "1000"},
		Rules:    []v1alpha1.Rule{{Annotation: maxQPS, Max: new(intstr.FromInt32(2000))}},
	}
	for name, test := range map[string]struct {
		request  *admissionv1.AdmissionRequest
		policies []*engine.Policy
		fields   []string
		warnings []string
	}{
		"good": {request: create(t, clbpol("shared", nil, tight))},
		"a namespace's default breaks its rule": {
			request: create(t, clbpol("shared", nil, tight)), policies: []*engine.Policy{limits},
			warnings: []string{`spec.rules[0].max: the default 5000 of LoadBalancerPolicy "limits", which also applies to namespace "shop", ` +
				"breaks the rule and will no longer be written; change that default"},
		},
		"selects nothing": {
			request:  create(t, clbpol("shared", map[string]string{"tier": "egde"}, tight)),
			warnings: []string{"spec.namespaceSelector: selects no namespace; label namespaces, or correct the selector"},
		},
		"a default that cannot be parsed": {
			request: create(t, clbpol("shared", nil, v1alpha1.LoadBalancerPolicySpec{Defaults: map[string]string{maxQPS: "many"}})),
			fields:  []string{"spec.defaults[" + maxQPS + "]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := policy.NewClusterValidator(policy.Options{Policies: cluster{policies: test.policies}})
			got, err := admit(t, v, test.request)
			if err != nil {
				t.Fatal(err)
			}
			var fields []string
			if got.Result != nil {
				if got.Result.Code != 422 || got.Result.Details.Kind != "ClusterLoadBalancerPolicy" || got.Result.Details.Group != "quaymaster.dev" {
					t.Errorf("status %+v of %+v", got.Result, got.Result.Details)
				}
				for _, cause := range got.Result.Details.Causes {
					fields = append(fields, cause.Field)
				}
			}
			if diff := cmp.Diff(test.fields, fields); diff != "" || got.Allowed != (test.fields == nil) {
				t.Errorf("allowed %t, causes (-want +got):\n%s", got.Allowed, diff)
			}
			if diff := cmp.Diff(test.warnings, got.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// Problems of a policy by itself are found without the others. That these are unavailable is no reason to deny it.
func TestValidatorWithoutTheOthers(t *testing.T) {
	v := policy.NewValidator(policy.Options{Policies: cluster{failure: errors.New("not synced")}})
	const warning = "spec: was not compared with the other policies because they are temporarily unavailable; " +
		"defaults that break a rule of another policy will not be added to Services"
	got, err := admit(t, v, create(t, lbpol()))
	if err != nil {
		t.Fatal(err)
	}
	want := &admissionv1.AdmissionResponse{
		Allowed: true, Warnings: []string{warning}, AuditAnnotations: map[string]string{"warned": "policy-others-unavailable"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
	got, err = admit(t, v, update(t, lbpol(), lbpol(withDefault(maxQPS, "many"))))
	if err != nil || got.Allowed || len(got.Warnings) != 1 {
		t.Errorf("invalid policy: got %+v, %v", got, err)
	}
}

func TestValidatorErrors(t *testing.T) {
	v := policy.NewValidator(policy.Options{Policies: cluster{}})
	_, err := admit(t, v, create(t, clbpol("shared", nil, v1alpha1.LoadBalancerPolicySpec{})))
	const problem = `request.object must have apiVersion "quaymaster.dev/v1alpha1" and kind "LoadBalancerPolicy"; ` +
		`got apiVersion "quaymaster.dev/v1alpha1" and kind "ClusterLoadBalancerPolicy"`
	if failure := (*admission.StatusError)(nil); !errors.As(err, &failure) || failure.Problem != problem {
		t.Errorf("wrong kind: got error %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = admission.Call(canceled, t, v, create(t, lbpol()))
	if failure := (*admission.StatusError)(nil); !errors.As(err, &failure) || failure.Status != http.StatusServiceUnavailable {
		t.Errorf("canceled: got error %v", err)
	}
}

// admit returns the response to a request.
func admit(t testing.TB, by webhook.Admitter, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	t.Helper()
	return admission.Call(t.Context(), t, by, request)
}
