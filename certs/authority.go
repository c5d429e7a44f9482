package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net/netip"
	"time"
)

const (
	// organization marks the certificates of self-signed authorities in bundles; replicas know each other's by it.
	organization = "quaymaster.dev webhook self-signed"
	// backdate lets API servers with clocks behind ours accept a certificate at once.
	backdate = 5 * time.Minute
)

// issued is a serving certificate with the authority that signed it. The authority's key is forgotten: it signs only once.
type issued struct {
	authority *x509.Certificate
	serving   *tls.Certificate
}

// issue makes an authority and has it sign a certificate for the hosts, both valid from now on for the time given.
func issue(now time.Time, validity time.Duration, hosts []string) (*issued, error) {
	authority, authorityKey, err := newAuthority(now, validity)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	serving, err := newServing(now, validity, hosts, authority, authorityKey)
	if err != nil {
		return nil, fmt.Errorf("make serving certificate: %w", err)
	}
	return &issued{authority: authority, serving: serving}, nil
}

func newAuthority(now time.Time, validity time.Duration) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	template, key, err := newTemplate(now, validity)
	if err != nil {
		return nil, nil, err
	}
	template.Subject.CommonName = fmt.Sprintf("authority %x", template.SerialNumber)
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.MaxPathLenZero = true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

func newServing(now time.Time, validity time.Duration, hosts []string, authority *x509.Certificate, authorityKey *ecdsa.PrivateKey) (*tls.Certificate, error) {
	template, key, err := newTemplate(now, validity)
	if err != nil {
		return nil, err
	}
	template.Subject.CommonName = "webhook"
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if addr, err := netip.ParseAddr(host); err == nil {
			template.IPAddresses = append(template.IPAddresses, addr.AsSlice())
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), authorityKey)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

func newTemplate(now time.Time, validity time.Duration) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{Organization: []string{organization}},
		NotBefore:    now.Add(-backdate),
		NotAfter:     now.Add(validity),
	}, key, nil
}
