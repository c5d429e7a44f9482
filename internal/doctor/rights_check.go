package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// namedRights is how many missing permissions a result lists.
const namedRights = 5

// rights asks the API server whether the accounts of the roles have all permissions that they need.
func (e *examination) rights(ctx context.Context) Result {
	asked, missing := 0, map[string]bool{}
	for _, grant := range Rights(e.settings()) {
		for _, attributes := range grant.attributes() {
			asked++
			allowed, err := e.may(ctx, grant.Account, attributes)
			if err != nil {
				return unread("the permissions of the ServiceAccounts", err)
			}
			if !allowed {
				missing[describe(grant.Account, attributes)] = true
			}
		}
	}
	if len(missing) == 0 {
		return ok("the ServiceAccounts have all %d permissions that they need", asked)
	}
	texts := slices.Sorted(maps.Keys(missing))
	more := ""
	if len(texts) > namedRights {
		more = fmt.Sprintf(" and %d more", len(texts)-namedRights)
		texts = texts[:namedRights]
	}
	return fail("restore the chart's roles and bindings with helm upgrade", "missing permissions: %s%s",
		strings.Join(texts, "; "), more)
}

// SettingsOf returns the settings of the installation that the options identify, as far as they are visible in the
// cluster.
func SettingsOf(ctx context.Context, o Options) (Settings, Result) {
	e := &examination{Options: o}
	result := e.installed(ctx)
	return e.settings(), result
}

// settings derives the settings from the flags of the installation's pods. If the chart does not deploy a role, they
// are the minimum that the role needs.
func (e *examination) settings() Settings {
	s := Settings{Namespace: e.Namespace}
	if w := e.release.webhook; w != nil {
		s.Webhook = w.account
		s.Configurations = w.argumentOr("--validating-webhook-configuration", e.configurationName())
		s.CertMode = w.argumentOr("--cert-mode", "")
		s.CertSecret = w.argumentOr("--cert-secret", defaultCertSecret)
		s.CertPrefix = w.argumentOr("--cert-name-prefix", defaultCertPrefix)
		s.Managed = w.argumentOr("--cert-manager-managed", "true") == "true"
		s.OwnIssuer = w.argumentOr("--cert-issuer-ref", "") == ""
		_, s.WebhookCloud = w.argument("--cloud-config")
		s.WebhookMetrics = w.argumentOr("--metrics-secure", "false") == "true"
	}
	if a := e.release.audit; a != nil {
		s.Audit = a.account
	}
	if c := e.release.controllers; c != nil {
		s.Controllers = c.account
		_, s.Cloud = c.argument("--cloud-config")
		s.Separate = c.argumentOr("--use-service-account-credentials", "false") == "true"
		s.Routes = c.argumentOr("--configure-cloud-routes", "true") == "true"
		if c.template != nil && c.elects() {
			s.Lease[0], s.Lease[1] = c.leaseName()
		}
	}
	return s
}

// configurationName returns the name of the release's webhook configurations.
func (e *examination) configurationName() string {
	for i := range e.release.validating {
		return e.release.validating[i].Name
	}
	return e.Release
}

// attributes returns the attributes of the access reviews for a grant, one for each resource, name and verb.
func (g Grant) attributes() []authorizationv1.ResourceAttributes {
	names := g.Names
	if len(names) == 0 {
		names = []string{""}
	}
	var all []authorizationv1.ResourceAttributes
	for _, resource := range g.Resources {
		resource, sub, _ := strings.Cut(resource, "/")
		for _, name := range names {
			for _, verb := range g.Verbs {
				all = append(all, authorizationv1.ResourceAttributes{
					Namespace: g.Namespace, Group: g.Group, Resource: resource, Subresource: sub, Name: name,
					Verb: verb,
				})
			}
		}
	}
	return all
}

func (e *examination) may(
	ctx context.Context, account [2]string, attributes authorizationv1.ResourceAttributes,
) (bool, error) {
	review, err := e.API.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + account[0] + ":" + account[1],
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + account[0],
				"system:authenticated"},
			ResourceAttributes: &attributes,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

func describe(account [2]string, a authorizationv1.ResourceAttributes) string {
	what := a.Resource
	if a.Subresource != "" {
		what += "/" + a.Subresource
	}
	if a.Group != "" {
		what += "." + a.Group
	}
	if a.Name != "" {
		what += " " + a.Name
	}
	if a.Namespace != "" {
		what += " in " + a.Namespace
	}
	return fmt.Sprintf("%s cannot %s %s", account[1], a.Verb, what)
}
