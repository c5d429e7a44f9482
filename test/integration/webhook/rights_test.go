package webhook_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

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

// The webhooks may patch their own configurations, but only to change the CA. With any other change, the account could
// read and modify every request of the cluster.
func TestWebhooksMayOnlyChangeTheirAuthority(t *testing.T) {
	kubeconfig, err := shared.ServiceAccountKubeconfig(t.Context(), env.Namespace, "quaymaster-webhook")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	const (
		mutating, validating = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
		denied               = "the webhooks may only change caBundle"
	)
	hook := func(name, field string) string {
		return `{"webhooks":[{"name":"` + name + `.quaymaster.dev",` + field + `}]}`
	}
	tests := map[string]struct{ resource, patch, want string }{
		"authority":            {mutating, hook("mutate.service", `"clientConfig":{"caBundle":""}`), ""},
		"validating authority": {validating, hook("validate.service", `"clientConfig":{"caBundle":""}`), ""},
		"url":                  {mutating, hook("mutate.service", `"clientConfig":{"url":"https://127.0.0.1:1/"}`), denied},
		"rules": {
			mutating,
			hook("mutate.service", `"rules":[{"apiGroups":["*"],"apiVersions":["*"],"resources":["*"],"operations":["*"]}]`), denied,
		},
		"validating rules":  {validating, hook("validate.service", `"rules":[]`), denied},
		"failure policy":    {validating, hook("validate.service", `"failurePolicy":"Ignore"`), denied},
		"selector":          {validating, hook("validate.service", `"namespaceSelector":{"matchLabels":{"a":"b"}}`), denied},
		"objects":           {validating, hook("validate.service", `"objectSelector":{"matchLabels":{"a":"b"}}`), denied},
		"timeout":           {validating, hook("validate.service", `"timeoutSeconds":30`), denied},
		"match conditions":  {validating, hook("validate.service", `"matchConditions":[{"name":"never","expression":"false"}]`), denied},
		"reinvocation":      {mutating, hook("mutate.service", `"reinvocationPolicy":"Never"`), denied},
		"removed webhook":   {mutating, hook("mutate.service", `"$patch":"delete"`), denied},
		"CA of another":     {mutating, `{"metadata":{"annotations":{"cert-manager.io/inject-ca-from":"other/ca"}}}`, denied},
		"garbage collected": {mutating, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"x","uid":"x"}]}}`, denied},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			env.Eventually(t, soon, "the verdict", func(ctx context.Context) error {
				err := api.AdmissionregistrationV1().RESTClient().Patch(types.StrategicMergePatchType).Resource(test.resource).
					Name("quaymaster").Param("dryRun", metav1.DryRunAll).Body([]byte(test.patch)).Do(ctx).Error()
				if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
					return fmt.Errorf("got %v, want %q", err, test.want)
				}
				return nil
			})
		})
	}
}
