package rights

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/kube/brakes"
	"quaymaster.dev/internal/kube/contact"
	"quaymaster.dev/internal/rules/template"
	"quaymaster.dev/internal/selection"
	"quaymaster.dev/internal/tool/doctor/release"
)

// Grant is a permission that an account needs. Without names it applies to all objects, without a namespace to all
// namespaces.
type Grant struct {
	// Account is the namespace and name of the ServiceAccount.
	Account   [2]string
	Namespace string
	Group     string
	Resources []string
	Names     []string
	Verbs     []string
}

// Needed returns all permissions that the accounts of an installation need. The chart grants exactly these. They follow
// from the flags of its pods; if the chart does not deploy a role, they are the minimum that the role needs.
func (c Checks) Needed() []Grant {
	var all []Grant
	if w := c.Webhook; w != nil {
		all = append(all, c.of(w, c.webhookRights(), c.certificateRights(w.Certificate()))...)
	}
	if r := c.Controllers; r != nil {
		all = append(all, c.of(r, controllersRights(r), leaseRights(r), servingRights())...)
		if separate(r) {
			all = append(all, c.separateRights()...)
		}
	}
	if a := c.Audit; a != nil {
		all = append(all, c.of(a, auditRights(a))...)
	}
	return all
}

// of returns the grants as those of the account of a role.
func (c Checks) of(role *release.Role, grants ...[]Grant) []Grant {
	return of([2]string{c.Namespace, role.Account}, slices.Concat(grants...))
}

func of(account [2]string, grants []Grant) []Grant {
	for i := range grants {
		grants[i].Account = account
	}
	return grants
}

const (
	groupPolicies   = "quaymaster.dev"
	policies        = "loadbalancerpolicies"
	clusterPolicies = "clusterloadbalancerpolicies"
)

// usesCloud reports whether a role uses the cloud.
func usesCloud(role *release.Role) bool {
	_, given := role.Argument("--cloud-config")
	return given
}

// separate reports whether each controller has its own account.
func separate(role *release.Role) bool {
	return role.ArgumentOr("--use-service-account-credentials", "false") == "true"
}

func (c Checks) webhookRights() []Grant {
	name := c.Name
	if len(c.Validating) > 0 {
		name = c.Validating[0].Name
	}
	name = c.Webhook.ArgumentOr("--validating-webhook-configuration", name)
	own := []string{"list", "watch"}
	if c.Webhook.Certificate().Mode == release.SelfSigned {
		own = append(own, "get", "patch")
	}
	grants := []Grant{
		{Group: "admissionregistration.k8s.io", Names: []string{name}, Verbs: own,
			Resources: []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}},
		// Events of webhook configurations, which have no namespace.
		{Namespace: metav1.NamespaceDefault, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		{Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}},
		{Group: groupPolicies, Resources: []string{policies, clusterPolicies}, Verbs: []string{"list", "watch"}},
		{Group: "storage.k8s.io", Resources: []string{"storageclasses"}, Verbs: []string{"list", "watch"}},
	}
	if usesCloud(c.Webhook) {
		grants = append(grants, Grant{Resources: []string{"persistentvolumes"}, Verbs: []string{"get"}})
	}
	if c.Webhook.ArgumentOr("--metrics-secure", "false") == "true" {
		grants = append(grants, delegationRights()...)
	}
	return grants
}

func (c Checks) certificateRights(from release.Certificate) []Grant {
	secret := Grant{Namespace: c.Namespace, Resources: []string{"secrets"}, Names: []string{from.Secret}}
	switch {
	case from.Secret == "":
		return nil
	case from.Mode == release.SelfSigned:
		secret.Verbs = []string{"get", "list", "watch", "update"}
		return []Grant{secret}
	case from.Mode != release.CertManager:
		return nil
	}
	secret.Verbs = []string{"list", "watch"}
	grants := []Grant{secret}
	names := map[string][]string{}
	for _, object := range from.Objects {
		names[object.Resource()] = append(names[object.Resource()], object.Metadata.Name)
	}
	for _, resource := range slices.Sorted(maps.Keys(names)) {
		grants = append(grants, Grant{
			Namespace: c.Namespace, Group: "cert-manager.io", Resources: []string{resource}, Names: names[resource],
			Verbs: []string{"create", "list", "patch", "watch"},
		})
	}
	return grants
}

func auditRights(role *release.Role) []Grant {
	list := []string{"list"}
	grants := []Grant{
		{Resources: []string{"services", "namespaces", "persistentvolumes", "persistentvolumeclaims"}, Verbs: list},
		{Group: "storage.k8s.io", Resources: []string{"storageclasses"}, Verbs: list},
		{Group: groupPolicies, Resources: []string{policies, clusterPolicies}, Verbs: list},
		{Resources: []string{"events"}, Verbs: []string{"create"}},
	}
	names, given := role.Argument("--catalog")
	if !given {
		return grants // the chart deploys no pods of it
	}
	more, _ := selection.Templates(role.Arguments("--service-template"), nil) // whose problems are those of its pods
	catalogs := strings.Split(names, ",")
	for i := range catalogs {
		catalogs[i], _, _ = strings.Cut(catalogs[i], "@")
	}
	for _, t := range template.For(slices.Concat(template.BuiltIn(), more), catalogs) {
		if t.Resource == "" {
			continue // the chart requires it
		}
		grants = append(grants, Grant{Group: t.Group, Resources: []string{t.Resource}, Verbs: list})
	}
	return grants
}

func controllersRights(role *release.Role) []Grant {
	grants := []Grant{
		{Resources: []string{"services"}, Verbs: []string{"list", "watch"}},
		{Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		{Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}},
		{Group: groupPolicies, Resources: []string{policies, clusterPolicies}, Verbs: []string{"list", "watch"}},
		{Group: groupPolicies, Resources: []string{policies + "/status", clusterPolicies + "/status"},
			Verbs: []string{"patch"}},
	}
	if !usesCloud(role) {
		return grants
	}
	grants = append(grants,
		Grant{Resources: []string{"services"}, Verbs: []string{"get"}},
		Grant{Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}},
		Grant{Resources: []string{"persistentvolumes"}, Verbs: []string{"list", "watch", "patch"}})
	if !separate(role) {
		grants = append(grants,
			Grant{Resources: []string{"services/status"}, Verbs: []string{"patch", "publish"}},
			Grant{Resources: []string{"nodes"}, Verbs: []string{"get", "update", "patch", "delete"}},
			Grant{Resources: []string{"nodes/status"}, Verbs: []string{"patch"}})
	}
	return grants
}

// leaseRights returns the permissions for the lease, and for the records of brakes, of the cluster's cloud and of the
// contact with it, which are next to the lease.
func leaseRights(role *release.Role) []Grant {
	if role.Template == nil || !role.Elects() {
		return nil
	}
	namespace, name := role.LeaseName()
	leases := Grant{Namespace: namespace, Group: "coordination.k8s.io", Resources: []string{"leases"}}
	create, hold := leases, leases
	create.Verbs = []string{"create"}
	hold.Names, hold.Verbs = []string{name}, []string{"get", "update"}
	grants := []Grant{create, hold}
	if !usesCloud(role) {
		return grants
	}
	record := func(name string, verbs ...string) {
		grants = append(grants, Grant{
			Namespace: namespace, Resources: []string{"configmaps"}, Names: []string{name}, Verbs: verbs,
		})
	}
	record(brakes.ConfigMap, "get", "list", "watch", "create", "patch")
	record(contact.IdentityConfigMap, "get", "create", "patch")
	record(contact.ConfigMap, "create", "patch")
	return grants
}

// servingRights returns the permissions to delegate authorization of metrics and configz to the API server. The chart
// grants them through built-in roles of the API server.
func servingRights() []Grant {
	return append(delegationRights(), Grant{
		Namespace: metav1.NamespaceSystem, Resources: []string{"configmaps"},
		Names: []string{"extension-apiserver-authentication"},
		Verbs: []string{"get", "list", "watch"},
	})
}

// delegationRights returns the permissions to ask the API server who a client is and what it may do.
func delegationRights() []Grant {
	return []Grant{
		{Group: "authentication.k8s.io", Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{Group: "authorization.k8s.io", Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	}
}

// separateRights returns the permissions needed if each controller has its own account.
func (c Checks) separateRights() []Grant {
	events := Grant{Resources: []string{"events"}, Verbs: []string{"create", "patch"}}
	nodeStatus := Grant{Resources: []string{"nodes/status"}, Verbs: []string{"patch"}}
	accounts := map[string][]Grant{
		"node-controller": {
			{Resources: []string{"nodes"}, Verbs: []string{"get", "update", "patch", "delete"}}, nodeStatus, events,
		},
		"service-controller": {{Resources: []string{"services/status"}, Verbs: []string{"patch", "publish"}}, events},
	}
	if c.Controllers.ArgumentOr("--configure-cloud-routes", "true") == "true" {
		accounts["route-controller"] = []Grant{nodeStatus, events}
	}
	var all []Grant
	names := slices.Sorted(maps.Keys(accounts))
	for _, name := range names {
		all = append(all, of([2]string{metav1.NamespaceSystem, name}, accounts[name])...)
	}
	return append(all, c.of(c.Controllers, []Grant{
		{Namespace: metav1.NamespaceSystem, Resources: []string{"serviceaccounts"}, Names: names, Verbs: []string{"get"}},
		{Namespace: metav1.NamespaceSystem, Resources: []string{"serviceaccounts/token"}, Names: names,
			Verbs: []string{"create"}},
	})...)
}
