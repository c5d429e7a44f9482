package env

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity is how long certificates last. A demonstration may run for days.
const validity = 365 * 24 * time.Hour

// authority signs the certificates of one control plane. Its files live in one directory.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// keyPair names the files of a certificate and its key.
type keyPair struct{ cert, key string }

func newAuthority(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "quaymaster-test-ca"},
		NotBefore:             time.Now().Add(-time.Minute),
		NotAfter:              time.Now().Add(validity),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	a := &authority{dir: dir, cert: cert, key: key}
	if _, err := a.write("ca", der, key); err != nil {
		return nil, err
	}
	return a, nil
}

// certificate returns the file that holds the authority's own certificate.
func (a *authority) certificate() string { return filepath.Join(a.dir, "ca.crt") }

// client issues a certificate that authenticates a user of the API server with his groups.
func (a *authority) client(file, user string, groups ...string) (keyPair, error) {
	return a.issue(file, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// server issues a certificate for a server on loopback that is also known by the names given.
func (a *authority) server(file string, names ...string) (keyPair, error) {
	return a.issue(file, &x509.Certificate{
		Subject:     pkix.Name{CommonName: file},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    append([]string{"localhost"}, names...),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
}

// ServingCertificate issues a certificate for a server on loopback, and returns the files of it and of its key.
func (e *Env) ServingCertificate(name string) (certFile, keyFile string, err error) {
	pair, err := e.authority.server(name)
	return pair.cert, pair.key, err
}

// Authority is the file with the certificate of the authority behind every certificate of the control plane.
func (e *Env) Authority() string { return e.authority.certificate() }

func (a *authority) issue(file string, template *x509.Certificate) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, fmt.Errorf("issue certificate %s: %w", file, err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return keyPair{}, fmt.Errorf("issue certificate %s: %w", file, err)
	}
	template.NotBefore = a.cert.NotBefore
	template.NotAfter = a.cert.NotAfter
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("issue certificate %s: %w", file, err)
	}
	return a.write(file, der, key)
}

func (a *authority) write(file string, der []byte, key *ecdsa.PrivateKey) (keyPair, error) {
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return keyPair{}, fmt.Errorf("write certificate %s: %w", file, err)
	}
	pair := keyPair{cert: filepath.Join(a.dir, file+".crt"), key: filepath.Join(a.dir, file+".key")}
	if err := writePEM(pair.cert, "CERTIFICATE", der); err != nil {
		return keyPair{}, err
	}
	return pair, writePEM(pair.key, "EC PRIVATE KEY", keyDER)
}

// serviceAccountKey makes the key that signs ServiceAccount tokens.
func serviceAccountKey(dir string) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", fmt.Errorf("make ServiceAccount key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return "", fmt.Errorf("make ServiceAccount key: %w", err)
	}
	path := filepath.Join(dir, "service-accounts.key")
	return path, writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
