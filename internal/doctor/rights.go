package doctor

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/brakes"
	"quaymaster.dev/internal/contact"
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

// Settings holds the settings of an installation that determine the permissions it needs.
type Settings struct {
	// Namespace is the namespace of the release.
	Namespace string
	// Webhook and Controllers are the ServiceAccounts of the roles; empty if the role is not installed.
	Webhook, Controllers string
	// Audit is the ServiceAccount of the CronJob; empty if it is not installed.
	Audit string
	// Configurations is the name of both webhook configurations.
	Configurations string
	// CertMode, CertSecret and CertPrefix are the webhook's flags. Managed is true if the webhook applies cert-manager
	// objects, OwnIssuer if these include a CA.
	CertMode, CertSecret, CertPrefix string
	OwnIssuer, Managed               bool
	// WebhookCloud is true if the webhook uses the cloud, and WebhookMetrics if the API server decides which clients may
	// read its metrics.
	WebhookCloud, WebhookMetrics bool
	// Cloud is true if the controllers run with a cloud, Separate if each of them has its own account, and Routes if
	// they configure cloud routes.
	Cloud, Separate, Routes bool
	// Lease is the namespace and name of the controllers' lease; empty for none.
	Lease [2]string
}

// Rights returns all permissions that the accounts of an installation need. The chart grants exactly these.
func Rights(s Settings) []Grant {
	var all []Grant
	if s.Webhook != "" {
		all = append(all, of([2]string{s.Namespace, s.Webhook},
			slices.Concat(webhookRights(s), certificateRights(s)))...)
	}
	if s.Controllers != "" {
		all = append(all, of([2]string{s.Namespace, s.Controllers},
			slices.Concat(controllersRights(s), leaseRights(s), recordRights(s), servingRights()))...)
	}
	if s.Audit != "" {
		all = append(all, of([2]string{s.Namespace, s.Audit}, auditRights())...)
	}
	if s.Controllers != "" && s.Separate {
		all = append(all, separateRights(s)...)
	}
	return all
}

func of(account [2]string, grants []Grant) []Grant {
	for i := range grants {
		grants[i].Account = account
	}
	return grants
}

const (
	groupPolicies      = "quaymaster.dev"
	groupRegistration  = "admissionregistration.k8s.io"
	groupCoordination  = "coordination.k8s.io"
	groupCertManager   = "cert-manager.io"
	namespaceSystem    = "kube-system"
	modeCertManager    = "cert-manager"
	modeSelfSigned     = "self-signed"
	modeFiles          = "files"
	policies           = "loadbalancerpolicies"
	clusterPolicies    = "clusterloadbalancerpolicies"
	mutatingResource   = "mutatingwebhookconfigurations"
	validatingResource = "validatingwebhookconfigurations"
)

func webhookRights(s Settings) []Grant {
	own := []string{"list", "watch"}
	if s.CertMode == modeSelfSigned {
		own = append(own, "get", "patch")
	}
	grants := []Grant{
		{Group: groupRegistration, Resources: []string{mutatingResource, validatingResource},
			Names: []string{s.Configurations}, Verbs: own},
		// Events of webhook configurations, which have no namespace.
		{Namespace: metav1.NamespaceDefault, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		{Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}},
		{Group: groupPolicies, Resources: []string{policies, clusterPolicies}, Verbs: []string{"list", "watch"}},
		{Group: "storage.k8s.io", Resources: []string{"storageclasses"}, Verbs: []string{"list", "watch"}},
	}
	if s.WebhookCloud {
		grants = append(grants, Grant{Resources: []string{"persistentvolumes"}, Verbs: []string{"get"}})
	}
	if s.WebhookMetrics {
		grants = append(grants, delegationRights()...)
	}
	return grants
}

func certificateRights(s Settings) []Grant {
	secret := Grant{Namespace: s.Namespace, Resources: []string{"secrets"}, Names: []string{s.CertSecret}}
	switch {
	case s.CertSecret == "":
		return nil
	case s.CertMode == modeSelfSigned:
		secret.Verbs = []string{"get", "list", "watch", "update"}
		return []Grant{secret}
	case s.CertMode == modeCertManager:
		secret.Verbs = []string{"list", "watch"}
	default:
		return nil
	}
	grants := []Grant{secret}
	if !s.Managed {
		return grants
	}
	apply := func(resource string, names ...string) {
		grants = append(grants, Grant{
			Namespace: s.Namespace, Group: groupCertManager, Resources: []string{resource}, Names: names,
			Verbs: []string{"create", "list", "patch", "watch"},
		})
	}
	if s.OwnIssuer {
		apply("issuers", s.CertPrefix+"-selfsigned", s.CertPrefix+"-ca")
		apply("certificates", s.CertPrefix+"-ca", s.CertPrefix)
	} else {
		apply("certificates", s.CertPrefix)
	}
	return grants
}

func auditRights() []Grant {
	list := []string{"list"}
	return []Grant{
		{Resources: []string{"services", "namespaces", "persistentvolumes", "persistentvolumeclaims"}, Verbs: list},
		{Group: "storage.k8s.io", Resources: []string{"storageclasses"}, Verbs: list},
		{Group: groupPolicies, Resources: []string{policies, clusterPolicies}, Verbs: list},
		{Resources: []string{"events"}, Verbs: []string{"create"}},
	}
}

func controllersRights(s Settings) []Grant {
	grants := []Grant{
		{Resources: []string{"services"}, Verbs: []string{"list", "watch"}},
		{Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		{Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}},
		{Group: groupPolicies, Resources: []string{policies, clusterPolicies}, Verbs: []string{"list", "watch"}},
		{Group: groupPolicies, Resources: []string{policies + "/status", clusterPolicies + "/status"},
			Verbs: []string{"patch"}},
	}
	if !s.Cloud {
		return grants
	}
	grants = append(grants,
		Grant{Resources: []string{"services"}, Verbs: []string{"get"}},
		Grant{Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}},
		Grant{Resources: []string{"persistentvolumes"}, Verbs: []string{"list", "watch", "patch"}})
	if !s.Separate {
		grants = append(grants,
			Grant{Resources: []string{"services/status"}, Verbs: []string{"patch"}},
			Grant{Resources: []string{"nodes"}, Verbs: []string{"get", "update", "patch", "delete"}},
			Grant{Resources: []string{"nodes/status"}, Verbs: []string{"patch"}})
	}
	return grants
}

func leaseRights(s Settings) []Grant {
	if s.Lease[1] == "" {
		return nil
	}
	lease := Grant{Namespace: s.Lease[0], Group: groupCoordination, Resources: []string{"leases"}}
	create, hold := lease, lease
	create.Verbs = []string{"create"}
	hold.Names, hold.Verbs = []string{s.Lease[1]}, []string{"get", "update"}
	return []Grant{create, hold}
}

// recordRights returns the permissions for the records of brakes, of the cluster's cloud and of the contact with it, which
// are next to the lease.
func recordRights(s Settings) []Grant {
	if !s.Cloud || s.Lease[1] == "" {
		return nil
	}
	ofBrakes := Grant{Namespace: s.Lease[0], Resources: []string{"configmaps"}}
	ofContact, ofCloud := ofBrakes, ofBrakes
	ofCloud.Names, ofCloud.Verbs = []string{contact.IdentityConfigMap}, []string{"get", "create", "patch"}
	ofBrakes.Names, ofBrakes.Verbs = []string{brakes.ConfigMap}, []string{"get", "list", "watch", "create", "patch"}
	ofContact.Names, ofContact.Verbs = []string{contact.ConfigMap}, []string{"create", "patch"}
	return []Grant{ofBrakes, ofCloud, ofContact}
}

// servingRights returns the permissions to delegate authorization of metrics and configz to the API server. The chart
// grants them through built-in roles of the API server.
func servingRights() []Grant {
	return append(delegationRights(), Grant{
		Namespace: namespaceSystem, Resources: []string{"configmaps"},
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
func separateRights(s Settings) []Grant {
	events := Grant{Resources: []string{"events"}, Verbs: []string{"create", "patch"}}
	nodeStatus := Grant{Resources: []string{"nodes/status"}, Verbs: []string{"patch"}}
	accounts := map[string][]Grant{
		"node-controller": {
			{Resources: []string{"nodes"}, Verbs: []string{"get", "update", "patch", "delete"}}, nodeStatus, events,
		},
		"service-controller": {{Resources: []string{"services/status"}, Verbs: []string{"patch"}}, events},
	}
	if s.Routes {
		accounts["route-controller"] = []Grant{nodeStatus, events}
	}
	var all, names = []Grant(nil), []string(nil)
	for name, grants := range accounts {
		all = append(all, of([2]string{namespaceSystem, name}, grants)...)
		names = append(names, name)
	}
	slices.Sort(names)
	return append(all, of([2]string{s.Namespace, s.Controllers}, []Grant{
		{Namespace: namespaceSystem, Resources: []string{"serviceaccounts"}, Names: names, Verbs: []string{"get"}},
		{Namespace: namespaceSystem, Resources: []string{"serviceaccounts/token"}, Names: names,
			Verbs: []string{"create"}},
	})...)
}
