package operations_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/harness/env"
)

// comeback is the promise for objects that are deleted by mistake.
const comeback = 15 * time.Second

// The Secret with the self-signed CA is lost. The webhooks keep serving and report it; when the chart is applied again,
// they get a new CA, and no request fails.
func TestSelfSignedSecretIsLost(t *testing.T) {
	t.Parallel()
	e := env.Start(t, env.Options{})
	port, err := env.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.InstallChart(t.Context(), values(port)); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "quaymaster-webhook-self-signed"}}
	webhook, err := e.StartWebhook(t.Context(), port, "--namespace="+env.Namespace, "--cert-secret="+secret.Name)
	if err != nil {
		t.Fatal(err)
	}
	read := func(ctx context.Context) error {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)
		if err == nil && len(secret.Data["ca.crt"]) == 0 {
			err = errors.New("it has no CA")
		}
		return err
	}
	env.Eventually(t, soon, "the CA", read)
	before := string(secret.Data["ca.crt"])
	if err := e.Client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, soon, "the report", func(context.Context) error {
		log, err := os.ReadFile(webhook.Log())
		if err == nil && !strings.Contains(string(log), "create it again with helm upgrade") {
			err = errors.New("there is none")
		}
		return err
	})
	create := func() {
		t.Helper()
		if err := e.Client.Create(t.Context(), service("web"), client.DryRunAll); err != nil {
			t.Error(err)
		}
	}
	create()
	if err := e.InstallChart(t.Context(), values(port)); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, soon, "a CA", func(ctx context.Context) error {
		create()
		return read(ctx)
	})
	if string(secret.Data["ca.crt"]) == before {
		t.Error("the CA is the same")
	}
	create()
}

// The objects of cert-manager come back at once.
func TestCertManagerObjectsComeBack(t *testing.T) {
	t.Parallel()
	e := env.Start(t, env.Options{})
	ctx := t.Context()
	port, err := env.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	v := values(port)
	v["certs"] = map[string]any{"mode": "cert-manager"}
	v["webhook"].(map[string]any)["caBundle"] = string(file(t, e.Authority()))
	if err := e.InstallChart(ctx, v); err != nil {
		t.Fatal(err)
	}
	if err := e.InstallCertManagerCRDs(ctx); err != nil {
		t.Fatal(err)
	}
	pairCert, pairKey, err := e.ServingCertificate("webhook")
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "quaymaster-webhook-tls"},
		Data:       map[string][]byte{corev1.TLSCertKey: file(t, pairCert), corev1.TLSPrivateKeyKey: file(t, pairKey)},
	}
	if err := e.Client.Create(ctx, secret); err != nil {
		t.Fatal(err)
	}
	declared, err := env.CertManagerObjects(env.Values{})
	if err != nil {
		t.Fatal(err)
	}
	declared = append(declared, "--cert-mode=cert-manager", "--namespace="+env.Namespace, "--cert-secret="+secret.Name)
	if _, err := e.StartWebhook(ctx, port, declared...); err != nil {
		t.Fatal(err)
	}
	objects := func(kind string, names ...string) (all []*unstructured.Unstructured) {
		for _, name := range names {
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: kind})
			o.SetNamespace(env.Namespace)
			o.SetName(name)
			all = append(all, o)
		}
		return all
	}
	all := append(objects("Issuer", "quaymaster-webhook-selfsigned", "quaymaster-webhook-ca"),
		objects("Certificate", "quaymaster-webhook-ca", "quaymaster-webhook")...)
	exist := func(ctx context.Context) error {
		for _, o := range all {
			if err := e.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
			}
			if o.GetDeletionTimestamp() != nil {
				return errors.New(o.GetName() + " is being deleted")
			}
		}
		return nil
	}
	env.Eventually(t, soon, "the objects", exist)
	time.Sleep(3 * time.Second) // settled: nothing is due for five minutes
	for _, o := range all {
		if err := e.Client.Delete(ctx, o); err != nil {
			t.Fatal(err)
		}
		env.Eventually(t, comeback, o.GetKind()+" "+o.GetName(), exist)
	}
	spec := all[3]
	if err := unstructured.SetNestedField(spec.Object, "other", "spec", "secretName"); err != nil {
		t.Fatal(err)
	}
	if err := e.Client.Update(ctx, spec); err != nil && !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
	env.Eventually(t, comeback, "the name of the Secret", func(ctx context.Context) error {
		if err := exist(ctx); err != nil {
			return err
		}
		if name, _, _ := unstructured.NestedString(spec.Object, "spec", "secretName"); name != secret.Name {
			return fmt.Errorf("it is %q", name)
		}
		return nil
	})
}

func file(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
