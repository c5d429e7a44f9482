package rights

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
)

// binding holds the common fields of RoleBindings and ClusterRoleBindings.
type binding struct {
	Subjects []rbacv1.Subject `json:"subjects"`
	RoleRef  rbacv1.RoleRef   `json:"roleRef"`
}

// Granted returns the permissions that the bindings among the objects grant to ServiceAccounts. Roles that are not
// among the objects are looked up by name in others; a binding to a role that is in neither is an error.
func Granted(objects []*unstructured.Unstructured, others map[string][]rbacv1.PolicyRule) (sets.Set[Right], error) {
	roles, err := rolesOf(objects)
	if err != nil {
		return nil, err
	}
	granted := sets.New[Right]()
	for _, object := range objects {
		if kind := object.GetKind(); kind != "RoleBinding" && kind != "ClusterRoleBinding" {
			continue
		}
		var b binding
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &b); err != nil {
			return nil, fmt.Errorf("decode %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		namespace := object.GetNamespace()
		if b.RoleRef.Kind == "ClusterRole" {
			namespace = ""
		}
		rules, ok := roles[roleID(b.RoleRef.Kind, namespace, b.RoleRef.Name)]
		if !ok {
			rules, ok = others[b.RoleRef.Name]
		}
		if !ok {
			return nil, fmt.Errorf("%s %s refers to unknown %s %s", object.GetKind(), object.GetName(), b.RoleRef.Kind,
				b.RoleRef.Name)
		}
		for _, subject := range b.Subjects {
			for _, rule := range rules {
				granted.Insert(Of(subject.Namespace+"/"+subject.Name, object.GetNamespace(), rule)...)
			}
		}
	}
	return granted, nil
}

// roleID identifies a role among the objects; cluster roles have no namespace.
func roleID(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

// rolesOf returns the rules of the roles among the objects, by roleID.
func rolesOf(objects []*unstructured.Unstructured) (map[string][]rbacv1.PolicyRule, error) {
	roles := map[string][]rbacv1.PolicyRule{}
	for _, object := range objects {
		if kind := object.GetKind(); kind != "Role" && kind != "ClusterRole" {
			continue
		}
		var role struct {
			Rules []rbacv1.PolicyRule `json:"rules"`
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			return nil, fmt.Errorf("decode %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		roles[roleID(object.GetKind(), object.GetNamespace(), object.GetName())] = role.Rules
	}
	return roles, nil
}

// Of returns the individual permissions of a rule in a namespace, or in all namespaces if it is empty.
func Of(account, namespace string, rule rbacv1.PolicyRule) []Right {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var all []Right
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, name := range names {
				for _, verb := range rule.Verbs {
					all = append(all, Right{
						Account: account, Verb: verb, Group: group, Resource: resource, Name: name,
						Namespace: namespace,
					})
				}
			}
		}
	}
	return all
}

// WellKnown returns the roles of the API server to which the chart binds accounts, reduced to the permissions that we
// need.
func WellKnown() map[string][]rbacv1.PolicyRule {
	return map[string][]rbacv1.PolicyRule{
		"extension-apiserver-authentication-reader": {{
			APIGroups: []string{""}, Resources: []string{"configmaps"},
			ResourceNames: []string{"extension-apiserver-authentication"},
			Verbs:         []string{"get", "list", "watch"},
		}},
		"system:auth-delegator": {
			{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"},
				Verbs: []string{"create"}},
			{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"},
				Verbs: []string{"create"}},
		},
	}
}
