package webhook_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/env"
)

// authority signs certificates in tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, organization string, from, until time.Time) *authority {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{Organization: []string{organization}}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	return sign(t, template, nil)
}

// serving is a certificate for 127.0.0.1.
func (a *authority) serving(t *testing.T, from, until time.Time) *authority {
	t.Helper()
	template := &x509.Certificate{
		NotBefore: from, NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	return sign(t, template, a)
}

// sign makes a certificate that is signed by another or, without one, by itself.
func sign(t *testing.T, template *x509.Certificate, by *authority) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		t.Fatal(err)
	}
	if by == nil {
		by = &authority{cert: template, key: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert: cert, key: key}
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func (a *authority) keyPEM(t *testing.T) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// putSecret makes the Secret or replaces its data.
func putSecret(t *testing.T, name string, data map[string][]byte) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: name}, Data: data}
	err := shared.Client.Update(t.Context(), secret)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err == nil {
		return
	}
	if err := shared.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(shared.Client.Delete(ctx, secret)); err != nil {
			t.Error(err)
		}
	})
}

// secretData is what the Secret holds.
func secretData(ctx context.Context, name string) (map[string][]byte, error) {
	secret := &corev1.Secret{}
	err := shared.Client.Get(ctx, client.ObjectKey{Namespace: env.Namespace, Name: name}, secret)
	return secret.Data, err
}
