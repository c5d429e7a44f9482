package chart

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/internal/kube/contact"
	"quaymaster.dev/test/harness/env"
)

// helm runs Helm, which must succeed, in the namespace of the release and returns its output.
func helm(t *testing.T, e *env.Env, values env.Values, command ...string) string {
	t.Helper()
	out := tryHelm(t, e, values, command...)
	if out.Code != 0 {
		t.Fatalf("helm %s: %s%s", strings.Join(command, " "), out.Stdout, out.Stderr)
	}
	return out.Stdout
}

// tryHelm runs Helm in the namespace of the release unless the command contains another one.
func tryHelm(t *testing.T, e *env.Env, values env.Values, command ...string) env.Output {
	t.Helper()
	path, err := env.Tool("helm")
	if err != nil {
		t.Fatal(err)
	}
	input, err := yaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	args := slices.Concat(command, []string{"--kubeconfig", e.AdminKubeconfig})
	if !slices.Contains(command, "--namespace") {
		args = append(args, "--namespace", env.Namespace)
	}
	if values != nil {
		args = append(args, "--set", "image.repository=quaymaster", "--values", "-")
	}
	out, err := env.Run(t.Context(), string(input), path, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// checkNotes checks the notes that users see after an installation.
func checkNotes(t *testing.T, e *env.Env) {
	tests := map[string][]string{
		"default":          {"create secret generic quaymaster-cloud-token", "rollout status deployment quaymaster-webhook", "get issuers,certificates", "the controllers check\nthose of the DLB again"},
		"development":      {"API servers call the webhooks at https://127.0.0.1:9443"},
		"webhooks-only":    {"Another cloud's controllers create the load balancers", "rollout status deployment admission-webhook", "get an Event InvalidService if they are invalid", "Nothing adds their defaults later"},
		"controllers-only": {"The controllers use https://api.mycloud.internal for cluster kubernetes"},
	}
	for name, wants := range tests {
		notes := helm(t, e, cases()[name], "install", release, folder(t), "--dry-run=client")
		_, notes, found := strings.Cut(notes, "\nNOTES:\n")
		if !found || strings.Contains(notes, "<no value>") {
			t.Errorf("%s: the notes are\n%s", name, notes)
		}
		if name == "webhooks-only" && strings.Contains(notes, "the controllers") {
			t.Errorf("%s: the notes promise what only our controllers do:\n%s", name, notes)
		}
		for _, want := range wants {
			if !strings.Contains(notes, want) {
				t.Errorf("%s: the notes lack %q:\n%s", name, want, notes)
			}
		}
	}
}

// folder returns the folder of the chart.
func folder(t *testing.T) string {
	t.Helper()
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "charts", "quaymaster")
}

// checkLifecycle installs, upgrades and uninstalls a release on the API server. Its pods do not run: the test is about
// what Helm does to objects.
func checkLifecycle(t *testing.T, e *env.Env) {
	values := func(timeout int) env.Values {
		return env.Values{
			"certs":           map[string]any{"mode": "self-signed"},
			"webhook":         map[string]any{"timeoutSeconds": timeout},
			"cloudController": map[string]any{"useServiceAccountCredentials": true},
		}
	}
	upgrade := func(values env.Values) { helm(t, e, values, "upgrade", "--install", release, folder(t)) }
	// kube-controller-manager may have created this account: Helm must not adopt it.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "node-controller"}}
	if err := e.Client.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	upgrade(values(3))
	state := fillIn(t, e.Client)

	before := versions(t, e.Client)
	upgrade(values(3))
	if diff := cmp.Diff(before, versions(t, e.Client)); diff != "" {
		t.Errorf("an upgrade without changes changed objects (-before +after):\n%s", diff)
	}
	upgrade(values(2))
	if diff := cmp.Diff(state, filledIn(t, e.Client)); diff != "" {
		t.Errorf("an upgrade removed what the webhooks had written (-want +got):\n%s", diff)
	}
	var configuration admissionregistrationv1.ValidatingWebhookConfiguration
	if err := e.Client.Get(t.Context(), client.ObjectKey{Name: release}, &configuration); err != nil {
		t.Fatal(err)
	}
	if got := *configuration.Webhooks[0].TimeoutSeconds; got != 2 {
		t.Errorf("the timeout is %d after the upgrade, want 2", got)
	}

	lost := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: release + "-webhook-self-signed"}}
	if err := e.Client.Delete(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	upgrade(values(2))
	if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(lost), lost); err != nil || len(lost.Data) != 0 {
		t.Errorf("an upgrade does not create a lost Secret again without data: %v", err)
	}

	// Not of Helm: the controllers create it.
	contacted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: contact.ConfigMap}}
	if err := e.Client.Create(t.Context(), contacted); err != nil {
		t.Fatal(err)
	}

	// No kubelet runs here: nothing of it may need a pod.
	helm(t, e, nil, "uninstall", release, "--timeout", "30s")
	checkRemovalOrder(t, e)
	if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(contacted), contacted); !apierrors.IsNotFound(err) {
		t.Errorf("ConfigMap %s is left behind: %v", contact.ConfigMap, err)
	}
	for object := range versions(t, e.Client) {
		kept := strings.HasPrefix(object, definition) || strings.HasPrefix(object, "ServiceAccount kube-system/")
		if !kept {
			t.Errorf("%s is left behind", object)
		}
	}
}

// filling is the data that the webhooks write into objects of the chart.
type filling struct {
	Secret map[string][]byte
	Bundle []byte
}

// fillIn writes the data as the webhooks do.
func fillIn(t *testing.T, kube client.Client) filling {
	t.Helper()
	secret, configuration := filled(t, kube)
	if len(secret.Data) > 0 {
		t.Errorf("the Secret of the certificate is created with %d keys", len(secret.Data))
	}
	secret.Data = map[string][]byte{"tls.crt": []byte("certificate"), "ca.crt": []byte("authority")}
	if err := kube.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	for i := range configuration.Webhooks {
		configuration.Webhooks[i].ClientConfig.CABundle = []byte(newCounter(t).authority())
	}
	if err := kube.Update(t.Context(), configuration); err != nil {
		t.Fatal(err)
	}
	return filledIn(t, kube)
}

func filledIn(t *testing.T, kube client.Client) filling {
	t.Helper()
	secret, configuration := filled(t, kube)
	return filling{Secret: secret.Data, Bundle: configuration.Webhooks[0].ClientConfig.CABundle}
}

func filled(t *testing.T, kube client.Client) (*corev1.Secret, *admissionregistrationv1.ValidatingWebhookConfiguration) {
	t.Helper()
	secret, configuration := &corev1.Secret{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: env.Namespace, Name: webhooks + "-self-signed"}, secret); err != nil {
		t.Fatal(err)
	}
	if err := kube.Get(t.Context(), client.ObjectKey{Name: release}, configuration); err != nil {
		t.Fatal(err)
	}
	return secret, configuration
}

// versions returns the resource versions of all objects of the release.
func versions(t *testing.T, kube client.Client) map[string]string {
	t.Helper()
	kinds := map[schema.GroupVersionKind]bool{}
	for _, values := range cases() {
		for _, object := range render(t, values) {
			if served(object) {
				kinds[object.GroupVersionKind()] = true
			}
		}
	}
	found := map[string]string{}
	for kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := kube.List(t.Context(), list, client.MatchingLabels{"app.kubernetes.io/instance": release}); err != nil {
			t.Fatal(err)
		}
		for _, object := range list.Items {
			found[fmt.Sprintf("%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName())] = object.GetResourceVersion()
		}
	}
	return found
}

// served reports whether the API server knows the kind of the object without more CRDs.
func served(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind().Group != "monitoring.coreos.com"
}
