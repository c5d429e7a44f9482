// Package rights knows which permissions the accounts of an installation need, and checks that they have them.
package rights

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/internal/tool/doctor/release"
)

// Checks are the checks of permissions.
type Checks struct{ *release.Release }

// namedRights is how many missing permissions a result lists.
const namedRights = 5

// Granted asks the API server whether the accounts of the roles have all permissions that they need.
func (c Checks) Granted(ctx context.Context) doctor.Result {
	asked, missing := 0, map[string]bool{}
	for _, grant := range c.Needed() {
		for _, attributes := range grant.attributes() {
			asked++
			allowed, err := c.may(ctx, grant.Account, attributes)
			if err != nil {
				return doctor.Unread("the permissions of the ServiceAccounts", err)
			}
			if !allowed {
				missing[describe(grant.Account, attributes)] = true
			}
		}
	}
	if len(missing) == 0 {
		return doctor.Passed("the ServiceAccounts have all %d permissions that they need", asked)
	}
	texts := slices.Sorted(maps.Keys(missing))
	more := ""
	if len(texts) > namedRights {
		more = fmt.Sprintf(" and %d more", len(texts)-namedRights)
		texts = texts[:namedRights]
	}
	return doctor.Failed("restore the chart's roles and bindings with helm upgrade", "missing permissions: %s%s",
		strings.Join(texts, "; "), more)
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

func (c Checks) may(
	ctx context.Context, account [2]string, attributes authorizationv1.ResourceAttributes,
) (bool, error) {
	review, err := c.API.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
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
