package webhook_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/harness/authority"
	"quaymaster.dev/test/harness/env"
)

// sharing creates an installation whose webhooks share their authority in an existing Secret, and returns their
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

// authorityIn returns the authority in a Secret.
func authorityIn(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	data, err := secretData(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data["ca.crt"])
	if block == nil {
		t.Fatalf("the Secret has no authority: %q", data)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// Two replicas start with an empty Secret at the same time, and share one authority that outlives both.
func TestReplicasShareASecret(t *testing.T) {
	const name, secret = "sharing", "sharing-webhook-self-signed"
	port, args := sharing(t, name, nil)
	other, err := env.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	start(t, name, port, args...)
	second := start(t, name, other, args...)
	shared := authorityIn(t, secret)
	if err := errors.Join(served(t, port).CheckSignatureFrom(shared), served(t, other).CheckSignatureFrom(shared)); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, soon, "admission", admitted)

	if err := second.Stop(soon); err != nil {
		t.Fatal(err)
	}
	if err := second.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !authorityIn(t, secret).Equal(shared) {
		t.Error("a restart changed the authority")
	}

	for change, data := range map[string]map[string][]byte{
		"emptied": nil, "spoiled": {"ca.crt": []byte("hello"), "tls.crt": []byte("world")},
	} {
		t.Run(change, func(t *testing.T) { rotate(t, secret, data, port, other) })
	}
}

// rotate overwrites a Secret. The running replicas replace the authority, and no request fails.
func rotate(t *testing.T, secret string, data map[string][]byte, ports ...int) {
	before := authorityIn(t, secret)
	created := load(t)
	putSecret(t, secret, data)
	awaitReplacement(t, time.Minute, before, created, ports...)
	after := authorityIn(t, secret)
	for _, port := range ports {
		if err := served(t, port).CheckSignatureFrom(after); err != nil {
			t.Errorf("the replicas do not share one authority: %v", err)
		}
	}
}

// awaitReplacement waits until replicas have certificates of another authority, and requests were created after that.
func awaitReplacement(t *testing.T, limit time.Duration, before *x509.Certificate, created *atomic.Int64, ports ...int) {
	t.Helper()
	for _, port := range ports {
		env.Eventually(t, limit, "a certificate of a new authority", func(context.Context) error {
			if served(t, port).CheckSignatureFrom(before) == nil {
				return errors.New("it is one of the old authority")
			}
			return nil
		})
	}
	atChange := created.Load()
	env.Eventually(t, soon, "requests after the change", func(context.Context) error {
		if n := created.Load() - atChange; n < 100 && !t.Failed() {
			return fmt.Errorf("only %d", n)
		}
		return nil
	})
	t.Logf("%d requests before the change, %d after it", atChange, created.Load()-atChange)
}

// The Secret was written by an earlier version, and its authority is due for renewal soon. It is used until then, and
// replaced without a failed request.
func TestAuthorityRotationUnderLoad(t *testing.T) {
	const name, secret = "succeeding", "succeeding-webhook-self-signed"
	now := time.Now()
	// Of its lifetime of two minutes, two thirds have passed in 40 seconds. It is also backdated by five minutes.
	from, until := now.Add(-5*time.Minute-40*time.Second), now.Add(80*time.Second)
	old := authority.New(t, "quaymaster.dev webhook self-signed", from, until)
	serving := old.Serving(t, from, until)
	port, args := sharing(t, name, map[string][]byte{
		"ca.crt": old.PEM(), "ca.key": old.KeyPEM(t), "tls.crt": serving.PEM(), "tls.key": serving.KeyPEM(t),
	})
	start(t, name, port, append(args, "--self-signed-validity=30s")...)
	first := served(t, port)
	if err := first.CheckSignatureFrom(old.Cert); err != nil {
		t.Fatalf("the authority in the Secret is not used: %v", err)
	}
	env.Eventually(t, soon, "admission with the old authority", admitted)
	created := load(t)
	awaitReplacement(t, 2*time.Minute, old.Cert, created, port)
	data, err := secretData(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data["tls.crt"], serving.PEM()) {
		t.Error("a key that is no longer used was changed")
	}

	config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := shared.Client.Get(t.Context(), client.ObjectKey{Name: name}, config); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.Webhooks[0].ClientConfig.CABundle)
	if _, err := served(t, port).Verify(x509.VerifyOptions{DNSName: "127.0.0.1", Roots: roots}); err != nil {
		t.Errorf("the bundle does not verify the certificate: %v", err)
	}
}
