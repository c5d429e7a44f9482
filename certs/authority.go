package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"k8s.io/client-go/util/keyutil"
)

const (
	// organization marks self-signed authorities in bundles. It must not change.
	organization = "quaymaster.dev webhook self-signed"
	// backdate lets API servers whose clocks are behind accept a new certificate immediately.
	backdate = 5 * time.Minute
)

// newAuthority creates an authority that is valid from now on.
func newAuthority(now time.Time, validity time.Duration) (*tls.Certificate, error) {
	return certify(&x509.Certificate{
		Subject: pkix.Name{CommonName: "authority of " + now.UTC().Format(time.RFC3339)}, NotAfter: now.Add(validity),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}, now, nil)
}

// issue signs a new serving certificate for the hosts. It never outlives the authority.
func issue(by *tls.Certificate, now time.Time, validity time.Duration, hosts []string) (*tls.Certificate, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "webhook"}, NotAfter: now.Add(min(validity, by.Leaf.NotAfter.Sub(now))),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if addr, err := netip.ParseAddr(host); err == nil {
			template.IPAddresses = append(template.IPAddresses, addr.AsSlice())
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return certify(template, now, by)
}

// certify creates a key and a certificate for it, signed by an authority or, if by is nil, by itself.
func certify(template *x509.Certificate, now time.Time, by *tls.Certificate) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create key of %s: %w", template.Subject.CommonName, err)
	}
	template.Subject.Organization = []string{organization}
	template.NotBefore = now.Add(-backdate)
	if by == nil {
		by = &tls.Certificate{Leaf: template, PrivateKey: key}
	}
	// Without a serial number, CreateCertificate chooses a random one.
	der, err := x509.CreateCertificate(rand.Reader, template, by.Leaf, key.Public(), by.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("create certificate of %s: %w", template.Subject.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: cert}, err
}

// encodeAuthority returns the authority as the data of a Secret.
func encodeAuthority(a *tls.Certificate) (map[string][]byte, error) {
	key, err := keyutil.MarshalPrivateKeyToPEM(a.PrivateKey)
	if err != nil {
		return nil, errors.New("encode private key: unsupported type") // the cause might quote the key
	}
	return map[string][]byte{authorityKey: encodeBundle([]*x509.Certificate{a.Leaf}), authorityPrivateKey: key}, nil
}

// parseAuthority returns the authority in the data of a Secret, unless it is due for renewal. Other keys, and
// certificates after the first one, are ignored: earlier versions shared more than the authority.
func parseAuthority(data map[string][]byte, now time.Time) (*tls.Certificate, error) {
	pair, err := keyPair(data, authorityKey, authorityPrivateKey)
	if err != nil {
		return nil, err
	}
	if !pair.Leaf.IsCA {
		return nil, fmt.Errorf("the first certificate of %s is not an authority", authorityKey)
	}
	if !now.Before(renewalTime(pair.Leaf)) {
		return nil, fmt.Errorf("the authority of %s, which expires at %s, is due for renewal", authorityKey,
			pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return pair, nil
}

// renewalTime returns the time when one of our certificates should be replaced: after two thirds of its lifetime.
func renewalTime(cert *x509.Certificate) time.Time {
	lifetime := cert.NotAfter.Sub(cert.NotBefore.Add(backdate))
	return cert.NotAfter.Add(-lifetime / 3)
}
