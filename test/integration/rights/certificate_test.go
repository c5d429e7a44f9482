package rights_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/harness/authority"
	"quaymaster.dev/test/harness/env"
	"quaymaster.dev/test/harness/rights"
)

// certificate does what the certificate mode expects from others, and returns the arguments for it and the authority
// for the chart's values.
func (w *world) certificate() (args []string, authority []byte) {
	chart := w.arguments("webhook")
	mode := flag(chart, "--cert-mode")
	if mode == "self-signed" {
		return nil, nil
	}
	certFile, keyFile, err := w.ServingCertificate("webhook")
	w.must(err)
	authority = w.read(w.Authority())
	if mode == "files" {
		return []string{"--tls-cert-file=" + certFile, "--tls-private-key-file=" + keyFile}, authority
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: flag(chart, "--cert-secret")},
		Data:       map[string][]byte{"ca.crt": authority, "tls.crt": w.read(certFile), "tls.key": w.read(keyFile)},
	}
	if flag(chart, "--cert-manager-object") == "" {
		w.create(secret)
		return nil, authority
	}
	w.must(w.InstallCertManagerCRDs(w.t.Context()))
	w.issuing.Go(func() error { return w.certManager(secret) })
	return nil, authority
}

// bundles overwrites the bundles of a configuration twice, so that the Event about it is updated, and restores them,
// unless the webhooks did.
func (w *world) bundles() {
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "quaymaster"}}
	set := func(bundle []byte) (before []byte) {
		w.patch(config, func() {
			for i := range config.Webhooks {
				before = config.Webhooks[i].ClientConfig.CABundle
				config.Webhooks[i].ClientConfig.CABundle = bundle
			}
		})
		return before
	}
	other := authority.New(w.t, "Other", time.Now(), time.Now().Add(time.Hour)).PEM()
	for times := range int32(2) {
		right := set(other)
		w.happened("CertificateNotTrusted", times+1)
		set(right)
		w.happened("CertificateTrusted", times+1)
	}
}

func (w *world) read(file string) []byte {
	w.t.Helper()
	text, err := os.ReadFile(file)
	w.must(err)
	return text
}

// certManager replaces cert-manager: it sets the webhooks' objects ready and, once all of them are applied, writes
// the certificate.
func (w *world) certManager(secret *corev1.Secret) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), soon)
	defer cancel()
	seen := rights.Right{
		Account: env.Namespace + "/quaymaster-webhook", Verb: "patch", Group: "cert-manager.io", Resource: "certificates",
		Name: "quaymaster-webhook", Namespace: env.Namespace,
	}
	err := env.Poll(ctx, "the webhooks to apply the certificate", func(ctx context.Context) error {
		if err := errors.Join(w.ready(ctx, "Issuer"), w.ready(ctx, "Certificate"), w.log.Read()); err != nil {
			return err
		}
		if !w.log.Used.Has(seen) {
			return fmt.Errorf("not yet: %s", seen)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return w.Client.Create(ctx, secret)
}

// ready sets the condition Ready of all objects of a kind.
func (w *world) ready(ctx context.Context, kind string) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: kind + "List"})
	if err := w.Client.List(ctx, list, client.InNamespace(env.Namespace)); err != nil {
		return err
	}
	for i := range list.Items {
		object := &list.Items[i]
		if _, found := object.Object["status"]; found {
			continue
		}
		object.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
		if err := w.Client.Status().Update(ctx, object); err != nil {
			return err
		}
	}
	return nil
}
