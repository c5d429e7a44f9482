package chart

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"quaymaster.dev/test/harness/env"
)

// TestRights checks that roles have no wildcards, and that rights over shared objects are limited to names or to
// reading.
func TestRights(t *testing.T) {
	// Resources that roles may only access by name.
	named := []string{
		"mutatingwebhookconfigurations", "validatingwebhookconfigurations", "secrets", "configmaps", "serviceaccounts", "serviceaccounts/token",
		"issuers", "certificates",
	}
	// Resources that no role may write.
	read := []string{"namespaces", "storageclasses", "customresourcedefinitions"}
	for name, values := range cases() {
		t.Run(name, func(t *testing.T) {
			for _, object := range render(t, values) {
				if kind := object.GetKind(); kind != "ClusterRole" && kind != "Role" {
					continue
				}
				role := find[rbacv1.ClusterRole](t, []*unstructured.Unstructured{object}, object.GetKind(), object.GetName())
				for _, rule := range role.Rules {
					all := slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs)
					if slices.Contains(all, "*") || slices.Contains(all, "escalate") || slices.Contains(all, "impersonate") {
						t.Errorf("%s may %v", role.Name, rule)
					}
					if containsAny(rule.Resources, named) && len(rule.ResourceNames) == 0 {
						t.Errorf("%s may %v without a name", role.Name, rule)
					}
					if containsAny(rule.Resources, read) && containsAny(rule.Verbs, []string{"create", "update", "patch", "delete", "deletecollection"}) {
						t.Errorf("%s may write: %v", role.Name, rule)
					}
				}
			}
		})
	}
}

// containsAny reports whether the list contains one of the words.
func containsAny(words, list []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return slices.Contains(list, word) })
}

// TestWebhookRights checks that the webhooks may patch the configurations only with a self-signed certificate,
// and read volumes only with the cloud.
func TestWebhookRights(t *testing.T) {
	reading := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}},
		{
			APIGroups: []string{"quaymaster.dev"}, Resources: []string{"loadbalancerpolicies", "clusterloadbalancerpolicies"},
			Verbs: []string{"list", "watch"},
		},
		{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"storageclasses"}, Verbs: []string{"list", "watch"}},
	}
	volumes := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"persistentvolumes"}, Verbs: []string{"get"}}
	tests := map[string]struct {
		name    string
		verbs   []string
		volumes bool
	}{
		"default":             {release, []string{"list", "watch"}, true},
		"self-signed":         {release, []string{"get", "list", "watch", "patch"}, true},
		"files":               {release, []string{"list", "watch"}, true},
		"webhooks-only":       {"admission", []string{"list", "watch"}, false},
		"webhooks-with-cloud": {release, []string{"list", "watch"}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			want := append([]rbacv1.PolicyRule{{
				APIGroups: []string{"admissionregistration.k8s.io"}, ResourceNames: []string{test.name}, Verbs: test.verbs,
				Resources: []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"},
			}}, reading...)
			if test.volumes {
				want = append(want, volumes)
			}
			role := find[rbacv1.ClusterRole](t, render(t, cases()[name]), "ClusterRole", test.name+"-webhook")
			if diff := cmp.Diff(want, role.Rules); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestCertificateRights checks the rights for each certificate mode, which are limited to names.
func TestCertificateRights(t *testing.T) {
	secret := func(name string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{name}, Verbs: verbs}
	}
	request := func(resource string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{
			APIGroups: []string{"cert-manager.io"}, Resources: []string{resource}, ResourceNames: names,
			Verbs: []string{"create", "list", "patch", "watch"},
		}
	}
	tests := map[string][]rbacv1.PolicyRule{
		"default": {
			secret("quaymaster-webhook-tls", "list", "watch"),
			request("issuers", "quaymaster-webhook-selfsigned", "quaymaster-webhook-ca"),
			request("certificates", "quaymaster-webhook-ca", "quaymaster-webhook"),
		},
		"issuer": {
			secret("quaymaster-webhook-tls", "list", "watch"),
			request("certificates", "quaymaster-webhook"),
		},
		"monitored":   {secret("quaymaster-webhook-tls", "list", "watch")},
		"self-signed": {secret("quaymaster-webhook-self-signed", "get", "list", "watch", "update")},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			role := find[rbacv1.Role](t, render(t, cases()[name]), "Role", webhooks+"-certificate")
			if role.Namespace != env.Namespace {
				t.Errorf("the role is in %s", role.Namespace)
			}
			if diff := cmp.Diff(want, role.Rules); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRightsWithoutCloud checks that the controllers then only write the status of policies and Events, and access no
// Nodes and volumes.
func TestRightsWithoutCloud(t *testing.T) {
	role := find[rbacv1.ClusterRole](t, render(t, cases()["webhooks-only"]), "ClusterRole", "admission-controllers")
	got := map[string][]string{}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			got[resource] = rule.Verbs
		}
	}
	want := map[string][]string{
		"services": {"list", "watch"}, "events": {"create", "patch"}, "namespaces": {"get", "list", "watch"},
		"loadbalancerpolicies": {"list", "watch"}, "clusterloadbalancerpolicies": {"list", "watch"},
		"loadbalancerpolicies/status": {"patch"}, "clusterloadbalancerpolicies/status": {"patch"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSeparateAccounts checks that only the separate accounts may write, and that the pods get tokens only for these
// accounts.
func TestSeparateAccounts(t *testing.T) {
	const pods = release + "-controllers"
	objects := render(t, cases()["controllers-only"])
	accounts := []string{"node-controller", "route-controller", "service-controller"}
	for _, account := range accounts {
		if sa := find[corev1.ServiceAccount](t, objects, "ServiceAccount", account); sa.Namespace != metav1.NamespaceSystem {
			t.Errorf("%s is in %s", account, sa.Namespace)
		}
		binding := find[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding", pods+"-"+account)
		want := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: metav1.NamespaceSystem, Name: account}}
		if diff := cmp.Diff(want, binding.Subjects); diff != "" || binding.RoleRef.Name != pods+"-"+account {
			t.Errorf("%s is bound to %s (-want +got):\n%s", account, binding.RoleRef.Name, diff)
		}
	}
	for _, rule := range find[rbacv1.ClusterRole](t, objects, "ClusterRole", pods).Rules {
		if containsAny(rule.Resources, []string{"nodes", "nodes/status"}) && !slices.Equal(rule.Verbs, []string{"list", "watch"}) {
			t.Errorf("the pods may %v", rule)
		}
	}
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: accounts, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: accounts, Verbs: []string{"create"}},
	}
	if diff := cmp.Diff(want, find[rbacv1.Role](t, objects, "Role", pods+"-accounts").Rules); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
}

// TestUserRights checks that viewers can read policies, and that admins of a namespace can write its policies but
// not cluster policies.
func TestUserRights(t *testing.T) {
	objects := render(t, env.Values{})
	tests := map[string]struct {
		label string
		rules []rbacv1.PolicyRule
	}{
		"quaymaster-policies-view": {
			"rbac.authorization.k8s.io/aggregate-to-view",
			[]rbacv1.PolicyRule{{
				APIGroups: []string{"quaymaster.dev"}, Resources: []string{"loadbalancerpolicies", "clusterloadbalancerpolicies"},
				Verbs: []string{"get", "list", "watch"},
			}},
		},
		"quaymaster-policies-edit": {
			"rbac.authorization.k8s.io/aggregate-to-admin",
			[]rbacv1.PolicyRule{{
				APIGroups: []string{"quaymaster.dev"}, Resources: []string{"loadbalancerpolicies"},
				Verbs: []string{"create", "update", "patch", "delete", "deletecollection"},
			}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			role := find[rbacv1.ClusterRole](t, objects, "ClusterRole", name)
			var aggregated []string
			for key, value := range role.Labels {
				if value == "true" {
					aggregated = append(aggregated, key)
				}
			}
			if diff := cmp.Diff([]string{test.label}, aggregated); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.rules, role.Rules); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
		})
	}
}
