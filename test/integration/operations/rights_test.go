package operations_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"

	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/internal/tool/doctor/release"
	accounts "quaymaster.dev/internal/tool/doctor/rights"
	"quaymaster.dev/test/harness/env"
	"quaymaster.dev/test/harness/rights"
)

// The table of rights that the doctor checks is exactly what the chart grants, for all of its values.
func TestRightsAreTheCharts(t *testing.T) {
	for name, values := range map[string]env.Values{
		"default":                 {},
		"self-signed":             {"certs": map[string]any{"mode": "self-signed"}},
		"files":                   {"certs": map[string]any{"mode": "files", "secretName": "mine"}},
		"an issuer of the user's": {"certs": map[string]any{"issuerRef": map[string]any{"name": "corporate", "kind": "ClusterIssuer"}}},
		"objects left to others":  {"certs": map[string]any{"certManager": map[string]any{"managed": false}}},
		"another name":            {"fullnameOverride": "edge"},
		"without a cloud":         {"cloudController": map[string]any{"enabled": false}},
		"with an audit":           {"audit": map[string]any{"enabled": true}},
		"an audit of more kinds": {
			"audit": map[string]any{"enabled": true}, "catalogs": []any{"mycloud", "alb"},
			"webhook": map[string]any{"serviceTemplates": map[string]any{"additional": []any{
				map[string]any{"group": "example.com", "kind": "Shop", "resource": "shops", "annotations": "spec.annotations"},
				map[string]any{"group": "example.com", "kind": "Wall", "resource": "walls", "annotations": "spec.a", "catalogs": []any{"gce"}},
			}}},
		},
		"without webhooks":  {"webhook": map[string]any{"enabled": false}},
		"secure metrics":    {"webhook": map[string]any{"secureMetrics": true}},
		"separate accounts": {"cloudController": map[string]any{"useServiceAccountCredentials": true}},
		"separate accounts and routes": {
			"cloudController": map[string]any{"useServiceAccountCredentials": true, "clusterCIDR": env.ClusterCIDR},
			"cloud":           map[string]any{"network": map[string]any{"routeTableID": "rt-main"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rendered, err := env.RenderChart(values)
			if err != nil {
				t.Fatal(err)
			}
			rendered = lasting(rendered)
			granted, err := rights.Granted(rendered, rights.WellKnown())
			if err != nil {
				t.Fatal(err)
			}
			r := &release.Release{
				API: fake.NewClientset(typed(t, rendered)...), Namespace: env.Namespace, Name: "quaymaster",
			}
			if result := r.Installed(t.Context()); result.Level != doctor.OK {
				t.Fatalf("got %+v", result)
			}
			needed := sets.New[rights.Right]()
			for _, g := range (accounts.Checks{Release: r}).Needed() {
				rule := rbacv1.PolicyRule{APIGroups: []string{g.Group}, Resources: g.Resources, ResourceNames: g.Names, Verbs: g.Verbs}
				needed.Insert(rights.Of(g.Account[0]+"/"+g.Account[1], g.Namespace, rule)...)
			}
			if diff := cmp.Diff(granted, needed); diff != "" {
				t.Errorf("rights (-chart +doctor):\n%s", diff)
			}
		})
	}
}

// typed returns the rendered objects of kinds that clients know.
func typed(t *testing.T, rendered []*unstructured.Unstructured) []runtime.Object {
	t.Helper()
	// Helm's library adds CRDs to the scheme that all of the process shares.
	known := runtime.NewScheme()
	if err := scheme.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	var objects []runtime.Object
	for _, u := range rendered {
		object, err := known.New(u.GroupVersionKind())
		if err != nil {
			continue // a CRD, or an object for monitoring
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

// lasting omits objects that hooks create temporarily.
func lasting(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(objects, func(object *unstructured.Unstructured) bool { return object.GetAnnotations()["helm.sh/hook"] != "" })
}
