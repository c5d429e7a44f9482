package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Keys of our Secrets beside those of every kubernetes.io/tls Secret.
const (
	// authorityKey is where cert-manager puts the authority, and we do, too. It must not change.
	authorityKey = "ca.crt"
	// authorityPrivateKey has the key of the first authority there. It must not change.
	authorityPrivateKey = "ca.key"
)

// parsePair is the serving certificate of a Secret, provided that clients who trust the Secret's authority could use it now.
// Without an authority, as public issuers write it, the certificate need only be in date.
func parsePair(data map[string][]byte, now time.Time) (*tls.Certificate, error) {
	pair, err := keyPair(data, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	if err != nil {
		return nil, err
	}
	if now.After(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("%s expired at %s", corev1.TLSCertKey, pair.Leaf.NotAfter.Format(time.RFC3339))
	}
	intermediates := x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", corev1.TLSCertKey, err)
		}
		intermediates.AddCert(cert)
	}
	bundle := data[authorityKey]
	if len(bundle) == 0 {
		return pair, nil
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	if pair.Leaf.NotBefore.After(now) {
		now = pair.Leaf.NotBefore // made by a clock ahead of ours; nobody would tell us again when ours has caught up
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, CurrentTime: now}); err != nil {
		return nil, fmt.Errorf("%s does not verify %s: %w", authorityKey, corev1.TLSCertKey, err)
	}
	return pair, nil
}

// keyPair is the certificate under one key of a Secret with its private key under another.
func keyPair(data map[string][]byte, certKey, privateKey string) (*tls.Certificate, error) {
	for _, key := range []string{certKey, privateKey} {
		if len(data[key]) == 0 {
			return nil, fmt.Errorf("it has no %s", key)
		}
	}
	pair, err := tls.X509KeyPair(data[certKey], data[privateKey])
	if err != nil {
		return nil, fmt.Errorf("%s with %s: %w", certKey, privateKey, err)
	}
	return &pair, nil
}
