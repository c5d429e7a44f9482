package chart

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/test/harness/env"
)

// policy returns a policy of the kind with a spec in YAML; a namespaced one is in namespace shop.
func policy(t *testing.T, kind, spec string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal([]byte("spec: "+spec), &object.Object); err != nil {
		t.Fatal(err)
	}
	object.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(kind))
	object.SetName("limits")
	if kind == v1alpha1.KindLoadBalancerPolicy {
		object.SetNamespace("shop")
	}
	return object
}

// checkPolicySchema checks what the schema of policies rejects without webhooks.
func checkPolicySchema(t *testing.T, e *env.Env) {
	tests := map[string]struct {
		spec string
		// want is part of the error; empty if the policy is accepted.
		want string
	}{
		"defaults":                {spec: `{defaults: {example.com/key: x}}`},
		"every limit":             {spec: `{rules: [{annotation: example.com/key, min: 1, max: 2, allowed: [x], pattern: x, required: true, message: x}]}`},
		"durations":               {spec: `{rules: [{annotation: example.com/key, min: 1s, max: 10m}]}`},
		"forbidden":               {spec: `{rules: [{annotation: example.com/key, forbidden: true, message: x}]}`},
		"as much as fits":         {spec: largest()},
		"empty defaults":          {`{defaults: {}}`, "spec.defaults in body should have at least 1 properties"},
		"long value":              {`{defaults: {a: ` + strings.Repeat("x", 1025) + `}}`, "keys must be at most 317 and values at most 1024 characters long"},
		"rule without annotation": {`{rules: [{max: 1}]}`, "spec.rules[0].annotation: Required value"},
		"bound too large":         {`{rules: [{annotation: a, max: 5000000000}]}`, "min and max must be between -2147483648 and 2147483647"},
		"two rules for one key":   {`{rules: [{annotation: a, max: 1}, {annotation: a, max: 2}]}`, `spec.rules[1]: Duplicate value: {"annotation":"a"}`},
		"one value allowed twice": {`{rules: [{annotation: a, allowed: [x, x]}]}`, `spec.rules[0].allowed[1]: Duplicate value: "x"`},
	}
	for _, kind := range []string{v1alpha1.KindLoadBalancerPolicy, v1alpha1.KindClusterLoadBalancerPolicy} {
		for name, test := range tests {
			t.Run(kind+"/"+name, func(t *testing.T) {
				err := e.Client.Create(t.Context(), policy(t, kind, test.spec), client.DryRunAll)
				if test.want == "" {
					if err != nil {
						t.Errorf("rejected: %v", err)
					}
					return
				}
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %s", err, test.want)
				}
			})
		}
	}
	t.Run("an ordinary user writes only namespaced policies", func(t *testing.T) {
		users, err := client.New(e.User, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		const spec = `{defaults: {a: b}}`
		if err := users.Create(t.Context(), policy(t, v1alpha1.KindLoadBalancerPolicy, spec), client.DryRunAll); err != nil {
			t.Error(err)
		}
		if err := users.Create(t.Context(), policy(t, v1alpha1.KindClusterLoadBalancerPolicy, spec), client.DryRunAll); !apierrors.IsForbidden(err) {
			t.Errorf("got %v, want it forbidden", err)
		}
	})
}

// largest returns a policy with as many and as long parts as the schema allows: it must not exceed the cost limit of
// CEL rules.
func largest() string {
	var text strings.Builder
	text.WriteString("\n  defaults:\n")
	for i := range 64 {
		fmt.Fprintf(&text, "    example.com/%s-%02d: %s\n", strings.Repeat("k", 50), i, strings.Repeat("x", 1024))
	}
	text.WriteString("  rules:\n")
	for i := range 64 {
		fmt.Fprintf(&text, "    - annotation: %s-%02d\n      min: 1\n      max: 2\n      pattern: %s\n      message: %s\n      allowed:\n",
			strings.Repeat("k", 314), i, strings.Repeat("x", 1024), strings.Repeat("x", 512))
		for j := range 4 {
			fmt.Fprintf(&text, "        - %s%02d\n", strings.Repeat("x", 1022), j)
		}
	}
	return text.String()
}
