package chart

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"quaymaster.dev/test/env"
)

// Rights are spelt out, and those over objects that many share are bound to names, or only for reading.
func TestRights(t *testing.T) {
	// What a role may do by name alone.
	named := []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations", "secrets", "configmaps"}
	// What nobody writes.
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
					if among(rule.Resources, named) && len(rule.ResourceNames) == 0 {
						t.Errorf("%s may %v without a name", role.Name, rule)
					}
					if among(rule.Resources, read) && among(rule.Verbs, []string{"create", "update", "patch", "delete", "deletecollection"}) {
						t.Errorf("%s may write: %v", role.Name, rule)
					}
				}
			}
		})
	}
}

// among tells whether any of the words is on the list.
func among(words, list []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return slices.Contains(list, word) })
}

// With certificates from files nobody writes the configurations; without the cloud nobody reads volumes.
func TestRightsOfTheWebhooks(t *testing.T) {
	reading := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}},
		{
			APIGroups: []string{"quaymaster.dev"}, Resources: []string{"loadbalancerpolicies", "clusterloadbalancerpolicies"},
			Verbs: []string{"list", "watch"},
		},
		{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"storageclasses"}, Verbs: []string{"get", "list", "watch"}},
	}
	volumes := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"persistentvolumes"}, Verbs: []string{"get"}}
	tests := map[string]struct {
		name    string
		verbs   []string
		volumes bool
	}{
		"default":             {release, []string{"get", "patch"}, true},
		"cert-manager":        {release, []string{"get"}, true},
		"webhooks-only":       {"admission", []string{"get", "patch"}, false},
		"webhooks-with-cloud": {release, []string{"get"}, true},
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

// Viewers see what limits them, admins of a namespace write its policies, and those of the cluster are left to others.
func TestRightsOfUsers(t *testing.T) {
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
