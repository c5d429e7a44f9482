// Package authority issues certificates in tests and in the demonstration, signed by an authority of their own.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Pair is the certificate of an authority, or one that it signed, with the private key.
type Pair struct {
	Cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New creates an authority for a test.
func New(t *testing.T, organization string, from, until time.Time) *Pair {
	t.Helper()
	p, err := Make(pkix.Name{Organization: []string{organization}}, from, until)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Serving signs a certificate for 127.0.0.1 in a test.
func (p *Pair) Serving(t *testing.T, from, until time.Time) *Pair {
	t.Helper()
	issued, err := p.IssueServing("", from, until)
	if err != nil {
		t.Fatal(err)
	}
	return issued
}

// Make creates an authority.
func Make(subject pkix.Name, from, until time.Time) (*Pair, error) {
	return sign(&x509.Certificate{
		Subject: subject, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
}

// IssueServing signs the certificate of a server on 127.0.0.1 that is also valid for the given hosts, DNS names or IP
// addresses.
func (p *Pair) IssueServing(commonName string, from, until time.Time, hosts ...string) (*Pair, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: commonName}, NotBefore: from, NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return sign(template, p)
}

// IssueClient signs the certificate that authenticates a user of an API server, with the user's groups.
func (p *Pair) IssueClient(user string, groups []string, from, until time.Time) (*Pair, error) {
	return sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: user, Organization: groups}, NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, p)
}

// sign creates a key and a certificate that is signed by another pair or, if by is nil, by itself.
func sign(template *x509.Certificate, by *Pair) (*Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	if by == nil {
		by = &Pair{Cert: template, key: key}
	}
	// Without a serial number, CreateCertificate chooses a random one.
	der, err := x509.CreateCertificate(rand.Reader, template, by.Cert, key.Public(), by.key)
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	issued, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	return &Pair{Cert: issued, key: key}, nil
}

// PEM returns the certificate.
func (p *Pair) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: p.Cert.Raw})
}

// KeyPEM returns the private key for a test.
func (p *Pair) KeyPEM(t *testing.T) []byte {
	t.Helper()
	text, err := p.EncodeKey()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// EncodeKey returns the private key.
func (p *Pair) EncodeKey() ([]byte, error) { return keyutil.MarshalPrivateKeyToPEM(p.key) }

// Write writes NAME.crt and NAME.key into a directory and returns their paths.
func (p *Pair) Write(dir, name string) (certFile, keyFile string, err error) {
	certFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	key, err := p.EncodeKey()
	if err != nil {
		return "", "", fmt.Errorf("write certificate %s: %w", name, err)
	}
	if err := cert.WriteCert(certFile, p.PEM()); err != nil {
		return "", "", fmt.Errorf("write certificate %s: %w", name, err)
	}
	if err := keyutil.WriteKey(keyFile, key); err != nil {
		return "", "", fmt.Errorf("write certificate %s: %w", name, err)
	}
	return certFile, keyFile, nil
}
