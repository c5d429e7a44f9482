package operations_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"

	"quaymaster.dev/internal/doctor"
	"quaymaster.dev/test/env"
)

// wellKnown are roles of the API server that the chart binds, and what we need of them.
var wellKnown = map[string][]rbacv1.PolicyRule{
	"extension-apiserver-authentication-reader": {{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"extension-apiserver-authentication"},
		Verbs: []string{"get", "list", "watch"},
	}},
	"system:auth-delegator": {
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	},
}

// The table of rights that the doctor checks is what the chart gives, neither more nor less, whatever its values.
func TestRightsAreTheCharts(t *testing.T) {
	for name, values := range map[string]env.Values{
		"default":                 {},
		"self-signed":             {"certs": map[string]any{"mode": "self-signed"}},
		"files":                   {"certs": map[string]any{"mode": "files", "secretName": "mine"}},
		"an issuer of the user's": {"certs": map[string]any{"issuerRef": map[string]any{"name": "corporate", "kind": "ClusterIssuer"}}},
		"objects left to others":  {"certs": map[string]any{"certManager": map[string]any{"managed": false}}},
		"another name":            {"fullnameOverride": "edge"},
		"without a cloud":         {"cloudController": map[string]any{"enabled": false}},
		"without webhooks":        {"webhook": map[string]any{"enabled": false}},
		"separate accounts":       {"cloudController": map[string]any{"useServiceAccountCredentials": true}},
		"separate accounts and routes": {
			"cloudController": map[string]any{"useServiceAccountCredentials": true, "clusterCIDR": env.ClusterCIDR},
			"cloud":           map[string]any{"network": map[string]any{"routeTableID": "rt-main"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rendered, err := env.RenderChart(t.Context(), values)
			if err != nil {
				t.Fatal(err)
			}
			objects := typed(t, rendered)
			settings, result := doctor.SettingsOf(t.Context(), doctor.Options{
				API: fake.NewClientset(known(objects)...), Namespace: env.Namespace, Release: "quaymaster",
			})
			if result.Level != doctor.OK {
				t.Fatalf("got %+v", result)
			}
			needed := map[string]bool{}
			for _, g := range doctor.Rights(settings) {
				rule := rbacv1.PolicyRule{APIGroups: []string{g.Group}, Resources: g.Resources, ResourceNames: g.Names, Verbs: g.Verbs}
				note(needed, g.Account[0]+"/"+g.Account[1], g.Namespace, rule)
			}
			if diff := cmp.Diff(granted(t, objects), needed); diff != "" {
				t.Errorf("rights (-chart +doctor):\n%s", diff)
			}
		})
	}
}

// typed are the rendered objects of kinds that clients know.
func typed(t *testing.T, rendered []*unstructured.Unstructured) []runtime.Object {
	t.Helper()
	var objects []runtime.Object
	for _, u := range rendered {
		object, err := scheme.Scheme.New(u.GroupVersionKind())
		if err != nil {
			continue // a CRD, or something that serves monitoring
		}
		raw, err := json.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	return objects
}

// known leaves out what hooks make for their own time.
func known(objects []runtime.Object) []runtime.Object {
	var kept []runtime.Object
	for _, object := range objects {
		if u, ok := object.(interface{ GetAnnotations() map[string]string }); ok && u.GetAnnotations()["helm.sh/hook"] != "" {
			continue
		}
		kept = append(kept, object)
	}
	return kept
}

// granted are the rights that the bindings among the objects give to ServiceAccounts.
func granted(t *testing.T, objects []runtime.Object) map[string]bool {
	t.Helper()
	roles := map[string][]rbacv1.PolicyRule{}
	for _, object := range objects {
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			roles["ClusterRole "+o.Name] = o.Rules
		case *rbacv1.Role:
			roles["Role "+o.Name] = o.Rules
		}
	}
	all := map[string]bool{}
	bind := func(namespace string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		rules, ok := roles[ref.Kind+" "+ref.Name]
		if !ok {
			rules, ok = wellKnown[ref.Name]
		}
		if !ok {
			t.Errorf("a binding to %s %s, which nobody knows", ref.Kind, ref.Name)
		}
		for _, s := range subjects {
			for _, rule := range rules {
				note(all, s.Namespace+"/"+s.Name, namespace, rule)
			}
		}
	}
	for _, object := range known(objects) {
		switch o := object.(type) {
		case *rbacv1.ClusterRoleBinding:
			bind("", o.RoleRef, o.Subjects)
		case *rbacv1.RoleBinding:
			bind(o.Namespace, o.RoleRef, o.Subjects)
		}
	}
	return all
}

// note adds the single rights of a rule.
func note(all map[string]bool, account, namespace string, rule rbacv1.PolicyRule) {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, name := range names {
				for _, verb := range rule.Verbs {
					all[fmt.Sprintf("%s: %s %s.%s %q in %q", account, verb, resource, group, name, namespace)] = true
				}
			}
		}
	}
}
