package webhook_test

import (
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/test/env"
)

// The role of the webhooks reads and patches its own two objects, reports Events about them, and does nothing else in the
// cluster.
func TestRightsOfTheWebhooks(t *testing.T) {
	const group = "admissionregistration.k8s.io"
	tests := map[string]struct {
		attributes authorizationv1.ResourceAttributes
		want       bool
	}{
		"read its own":            {authorizationv1.ResourceAttributes{Verb: "get", Group: group, Resource: "validatingwebhookconfigurations", Name: "quaymaster"}, true},
		"patch its own":           {authorizationv1.ResourceAttributes{Verb: "patch", Group: group, Resource: "mutatingwebhookconfigurations", Name: "quaymaster"}, true},
		"patch another":           {authorizationv1.ResourceAttributes{Verb: "patch", Group: group, Resource: "mutatingwebhookconfigurations", Name: "istio"}, false},
		"delete its own":          {authorizationv1.ResourceAttributes{Verb: "delete", Group: group, Resource: "mutatingwebhookconfigurations", Name: "quaymaster"}, false},
		"make one":                {authorizationv1.ResourceAttributes{Verb: "create", Group: group, Resource: "mutatingwebhookconfigurations"}, false},
		"watch its own":           {authorizationv1.ResourceAttributes{Verb: "watch", Group: group, Resource: "validatingwebhookconfigurations", Name: "quaymaster"}, true},
		"list them":               {authorizationv1.ResourceAttributes{Verb: "list", Group: group, Resource: "mutatingwebhookconfigurations"}, false},
		"read Services":           {authorizationv1.ResourceAttributes{Verb: "get", Resource: "services", Namespace: namespace}, false},
		"read Secrets of its own": {authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Namespace: env.Namespace}, false},
		"write Events of Pods":    {authorizationv1.ResourceAttributes{Verb: "create", Resource: "events", Namespace: env.Namespace}, false},
		"write Events of its own": {authorizationv1.ResourceAttributes{Verb: "create", Resource: "events", Namespace: metav1.NamespaceDefault}, true},
		"review whom it talks to": {authorizationv1.ResourceAttributes{Verb: "create", Group: "authentication.k8s.io", Resource: "tokenreviews"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               "system:serviceaccount:" + env.Namespace + ":quaymaster-webhook",
				Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + env.Namespace, "system:authenticated"},
				ResourceAttributes: &test.attributes,
			}}
			if err := shared.Client.Create(t.Context(), review); err != nil {
				t.Fatal(err)
			}
			if review.Status.Allowed != test.want {
				t.Errorf("allowed is %t, want %t", review.Status.Allowed, test.want)
			}
		})
	}
}
