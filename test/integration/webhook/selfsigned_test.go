package webhook_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/authority"
	"quaymaster.dev/test/env"
)

// sharing creates an installation whose webhooks keep their certificates in an existing Secret, and returns their
// arguments.
func sharing(t *testing.T, name string, data map[string][]byte) (port int, args []string) {
	t.Helper()
	secret := name + "-webhook-self-signed"
	putSecret(t, secret, data)
	return install(t, name, map[string]any{"mode": "self-signed"}, nil), []string{"--namespace=" + env.Namespace, "--cert-secret=" + secret}
}

// admitted checks that webhooks with the failure policy Fail can be called.
func admitted(ctx context.Context) error {
	return shared.Client.Create(ctx, service("admitted"), client.DryRunAll)
}

// Two replicas start with an empty Secret at the same time, and serve one certificate that outlives both.
func TestReplicasShareASecret(t *testing.T) {
	const name = "sharing"
	port, args := sharing(t, name, nil)
	other, err := env.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	start(t, name, port, args...)
	second := start(t, name, other, args...)
	first := served(t, port)
	if !served(t, other).Equal(first) {
		t.Fatal("the replicas serve different certificates")
	}
	env.Eventually(t, soon, "admission", admitted)

	if err := second.Stop(soon); err != nil {
		t.Fatal(err)
	}
	if err := second.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !served(t, other).Equal(first) {
		t.Error("a restart changed the certificate")
	}

	t.Run("spoiled", func(t *testing.T) { spoilSecret(t, name+"-webhook-self-signed", first) })
	if !served(t, port).Equal(first) || !served(t, other).Equal(first) {
		t.Error("the certificate changed")
	}
}

// spoilSecret overwrites a Secret with invalid data. The running replicas restore it, and no request fails.
func spoilSecret(t *testing.T, name string, first *x509.Certificate) {
	load(t)
	putSecret(t, name, map[string][]byte{"ca.crt": []byte("hello"), "tls.crt": []byte("world")})
	want := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: first.Raw})
	env.Eventually(t, soon, "the Secret as it was", func(ctx context.Context) error {
		data, err := secretData(ctx, name)
		if err == nil && !bytes.Equal(data["tls.crt"], want) {
			err = fmt.Errorf("its certificate is\n%s", data["tls.crt"])
		}
		return err
	})
}

// The authority in the Secret is due for rotation. During the transition, while both are trusted, no request fails.
func TestAuthorityRotationUnderLoad(t *testing.T) {
	const name = "succeeding"
	now := time.Now()
	old := authority.New(t, "quaymaster.dev webhook self-signed", now.Add(-25*time.Minute), now.Add(5*time.Minute))
	serving := old.Serving(t, now.Add(-5*time.Minute), now.Add(5*time.Minute))
	port, args := sharing(t, name, map[string][]byte{
		"ca.crt": old.PEM(), "ca.key": old.KeyPEM(t), "tls.crt": serving.PEM(), "tls.key": serving.KeyPEM(t),
	})
	start(t, name, port, args...)
	if !served(t, port).Equal(serving.Cert) {
		t.Fatal("the certificate in the Secret is not served")
	}
	env.Eventually(t, soon, "admission with the old authority", admitted)
	created := load(t)
	env.Eventually(t, time.Minute, "a certificate of the new authority", func(context.Context) error {
		if served(t, port).CheckSignatureFrom(old.Cert) == nil {
			return errors.New("it is one of the old authority")
		}
		return nil
	})
	atChange := created.Load()
	env.Eventually(t, soon, "requests after the change", func(context.Context) error {
		if n := created.Load() - atChange; n < 100 && !t.Failed() {
			return fmt.Errorf("only %d", n)
		}
		return nil
	})
	t.Logf("%d requests before the change, %d after it", atChange, created.Load()-atChange)

	config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := shared.Client.Get(t.Context(), client.ObjectKey{Name: name}, config); err != nil {
		t.Fatal(err)
	}
	for _, cert := range []*x509.Certificate{serving.Cert, served(t, port)} {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(config.Webhooks[0].ClientConfig.CABundle)
		if _, err := cert.Verify(x509.VerifyOptions{DNSName: "127.0.0.1", Roots: roots}); err != nil {
			t.Errorf("the bundle does not verify both certificates: %v", err)
		}
	}
}
