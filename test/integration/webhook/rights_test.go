package webhook_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/harness/env"
)

// secretOfCA is the name of the Secret with the self-signed CA.
const secretOfCA = "quaymaster-webhook-self-signed"

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
		"update the CA":           {authorizationv1.ResourceAttributes{Verb: "update", Resource: "secrets", Namespace: env.Namespace, Name: secretOfCA}, true},
		"create the CA's Secret":  {authorizationv1.ResourceAttributes{Verb: "create", Resource: "secrets", Namespace: env.Namespace, Name: secretOfCA}, false},
		"delete the CA's Secret":  {authorizationv1.ResourceAttributes{Verb: "delete", Resource: "secrets", Namespace: env.Namespace, Name: secretOfCA}, false},
		"create tokens":           {authorizationv1.ResourceAttributes{Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: env.Namespace}, false},
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

// asWebhooks returns a client with the account of the webhooks.
func asWebhooks(t *testing.T) kubernetes.Interface {
	t.Helper()
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
	return api
}

// The webhooks may patch their own configurations, but only to change the CA. With any other change, the account could
// read and modify every request of the cluster.
func TestWebhooksMayOnlyChangeTheirAuthority(t *testing.T) {
	api := asWebhooks(t)
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

// Of its Secret, the account may only change the CA. With a role that allows more by mistake, it still may not create or
// delete Secrets, or change others.
func TestWebhooksMayOnlyChangeTheirSecret(t *testing.T) {
	const (
		other, onlyUpdate, onlyCA = "of-others", "the webhooks may only update the Secret " + secretOfCA, "the webhooks may only change ca.crt and ca.key"
	)
	putSecret(t, other, nil)
	widen(t)
	secret := &corev1.Secret{}
	if err := shared.Client.Get(t.Context(), client.ObjectKey{Namespace: env.Namespace, Name: secretOfCA}, secret); err != nil {
		t.Fatal(err)
	}
	// This key is not the webhooks'.
	data := client.RawPatch(types.MergePatchType, []byte(`{"data":{"tls.crt":"YQ=="}}`))
	if err := shared.Client.Patch(t.Context(), secret, data); err != nil {
		t.Fatal(err)
	}
	secrets := asWebhooks(t).CoreV1().Secrets(env.Namespace)
	dryRun := []string{metav1.DryRunAll}
	patch := func(name, body string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := secrets.Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: dryRun})
			return err
		}
	}
	create := func(ctx context.Context) error {
		_, err := secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "new", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
			Type:       corev1.SecretTypeServiceAccountToken,
		}, metav1.CreateOptions{DryRun: dryRun})
		return err
	}
	remove := func(ctx context.Context) error {
		return secrets.Delete(ctx, secretOfCA, metav1.DeleteOptions{DryRun: dryRun})
	}
	removeAll := func(ctx context.Context) error {
		return secrets.DeleteCollection(ctx, metav1.DeleteOptions{DryRun: dryRun}, metav1.ListOptions{})
	}
	tests := map[string]struct {
		try  func(context.Context) error
		want string
	}{
		"the CA":         {patch(secretOfCA, `{"data":{"ca.crt":"YQ==","ca.key":"Yg=="}}`), ""},
		"no CA":          {patch(secretOfCA, `{"data":{"ca.crt":null}}`), ""},
		"another key":    {patch(secretOfCA, `{"data":{"token":"YQ=="}}`), onlyCA},
		"a changed key":  {patch(secretOfCA, `{"data":{"tls.crt":"Yg=="}}`), onlyCA},
		"a removed key":  {patch(secretOfCA, `{"data":{"tls.crt":null}}`), onlyCA},
		"no data":        {patch(secretOfCA, `{"data":null}`), onlyCA},
		"text":           {patch(secretOfCA, `{"stringData":{"token":"a"}}`), onlyCA},
		"an owner":       {patch(secretOfCA, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"x","uid":"x"}]}}`), onlyCA},
		"a finalizer":    {patch(secretOfCA, `{"metadata":{"finalizers":["example.com/hold"]}}`), onlyCA},
		"a label":        {patch(secretOfCA, `{"metadata":{"labels":{"a":"b"}}}`), onlyCA},
		"no labels":      {patch(secretOfCA, `{"metadata":{"labels":null}}`), onlyCA},
		"an annotation":  {patch(secretOfCA, `{"metadata":{"annotations":{"kubernetes.io/service-account.name":"default"}}}`), onlyCA},
		"immutable":      {patch(secretOfCA, `{"immutable":true}`), onlyCA},
		"type":           {patch(secretOfCA, `{"type":"kubernetes.io/service-account-token"}`), "field is immutable"},
		"another Secret": {patch(other, `{"data":{"ca.crt":"YQ=="}}`), onlyUpdate},
		"creation":       {create, onlyUpdate},
		"deletion":       {remove, onlyUpdate},
		"all":            {removeAll, onlyUpdate},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			env.Eventually(t, soon, "the verdict", func(ctx context.Context) error {
				err := test.try(ctx)
				if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
					return fmt.Errorf("got %v, want %q", err, test.want)
				}
				return nil
			})
		})
	}
}

// widen gives the account of the webhooks every right over Secrets until the test ends.
func widen(t *testing.T) {
	t.Helper()
	about := metav1.ObjectMeta{Namespace: env.Namespace, Name: "too-much"}
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: about, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"*"}}}},
		&rbacv1.RoleBinding{
			ObjectMeta: about, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: about.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: env.Namespace, Name: "quaymaster-webhook"}},
		},
	} {
		if err := shared.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		ctx := context.WithoutCancel(t.Context())
		t.Cleanup(func() {
			if err := shared.Client.Delete(ctx, object); err != nil {
				t.Error(err)
			}
		})
	}
}
