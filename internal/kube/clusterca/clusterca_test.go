package clusterca_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"quaymaster.dev/internal/kube/clusterca"
)

// authority is a certificate authority of API servers.
type authority struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
	pem         []byte
	fingerprint string
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := authority{key: key}
	a.certificate = issue(t, a, &key.PublicKey, &x509.Certificate{
		Subject: pkix.Name{CommonName: "kubernetes"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
	sum := sha256.Sum256(a.certificate.RawSubjectPublicKeyInfo)
	a.fingerprint = "sha256:" + hex.EncodeToString(sum[:])
	return a
}

// issue signs a certificate of a key; an authority without a certificate signs its own.
func issue(t *testing.T, a authority, key *ecdsa.PublicKey, template *x509.Certificate) *x509.Certificate {
	t.Helper()
	template.SerialNumber, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(time.Hour)
	parent := a.certificate
	if parent == nil {
		parent = template
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, key, a.key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// serve runs an API server with a certificate of the authority.
func (a authority) serve(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := issue(t, a, &key.PublicKey, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// identity asks an API server and returns what the observer learns.
func identity(t *testing.T, cfg *rest.Config) clusterca.Identity {
	t.Helper()
	observer := clusterca.Observe(cfg)
	if _, err := observer.Identity(); err == nil {
		t.Error("there is an identity without a response")
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cfg.Host, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	id, err := observer.Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestIdentity(t *testing.T) {
	own, next := newAuthority(t), newAuthority(t)
	url := own.serve(t)
	var company []byte
	for range 8 {
		company = append(company, newAuthority(t).pem...)
	}
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, slices.Concat(own.pem, next.pem), 0o600); err != nil {
		t.Fatal(err)
	}
	both := []string{own.fingerprint, next.fingerprint}
	slices.Sort(both)
	address := "server:" + strings.TrimPrefix(url, "https://")
	for name, test := range map[string]struct {
		client rest.TLSClientConfig
		want   clusterca.Identity
	}{
		"one authority":      {rest.TLSClientConfig{CAData: own.pem}, clusterca.Identity{Proven: own.fingerprint, Accepted: []string{own.fingerprint}}},
		"rotation":           {rest.TLSClientConfig{CAFile: file}, clusterca.Identity{Proven: own.fingerprint, Accepted: both}},
		"a company's bundle": {rest.TLSClientConfig{CAData: slices.Concat(own.pem, company)}, clusterca.Identity{Proven: own.fingerprint, Accepted: []string{own.fingerprint}}},
		"not verified":       {rest.TLSClientConfig{Insecure: true}, clusterca.Identity{Proven: address, Accepted: []string{address}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, identity(t, &rest.Config{Host: url, TLSClientConfig: test.client})); diff != "" {
				t.Errorf("unexpected identity (-want +got):\n%s", diff)
			}
		})
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	if got := identity(t, &rest.Config{Host: plain.URL}); got.Proven != "server:"+strings.TrimPrefix(plain.URL, "http://") {
		t.Errorf("without TLS, the identity is %+v", got)
	}
}
