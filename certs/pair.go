package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Keys of our Secrets in addition to those of every kubernetes.io/tls Secret.
const (
	// authorityKey holds the authority, as in Secrets of cert-manager. It must not change.
	authorityKey = "ca.crt"
	// authorityPrivateKey holds the private key of the first authority in authorityKey. It must not change.
	authorityPrivateKey = "ca.key"
)

// parsePair returns the serving certificate of a Secret, if clients that trust the Secret's authority could use it now.
// Without an authority, as in Secrets of public issuers, the certificate must only not have expired.
func parsePair(data map[string][]byte, now time.Time) (*tls.Certificate, error) {
	pair, err := keyPair(data, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	if err != nil {
		return nil, err
	}
	if now.After(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("%s expired at %s", corev1.TLSCertKey, pair.Leaf.NotAfter.Format(time.RFC3339))
	}
	chain, err := chainOf(pair)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", corev1.TLSCertKey, err)
	}
	bundle := data[authorityKey]
	if len(bundle) == 0 {
		return pair, nil
	}
	roots := x509.NewCertPool()
	// As in API servers, a certificate that cannot be parsed is no obstacle next to one that verifies.
	if !roots.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("%s contains no valid certificate", authorityKey)
	}
	intermediates := x509.NewCertPool()
	for _, intermediate := range chain[1:] {
		intermediates.AddCert(intermediate)
	}
	if pair.Leaf.NotBefore.After(now) {
		now = pair.Leaf.NotBefore // issued by a clock ahead of ours; the Secret does not change again when ours has caught up
	}
	options := x509.VerifyOptions{Roots: roots, Intermediates: intermediates, CurrentTime: now}
	if _, err := pair.Leaf.Verify(options); err != nil {
		return nil, fmt.Errorf("%s does not verify %s: %w", authorityKey, corev1.TLSCertKey, err)
	}
	return pair, nil
}

// keyPair returns the certificate under certKey of a Secret with its private key under privateKey.
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
