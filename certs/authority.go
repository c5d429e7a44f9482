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
	// organization marks self-signed authorities in bundles; replicas recognize each other's authorities by it.
	organization = "quaymaster.dev webhook self-signed"
	// backdate lets API servers whose clocks are behind accept a new certificate immediately.
	backdate = 5 * time.Minute
)

// authority is a self-signed certificate authority.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority creates an authority that is valid from now on.
func newAuthority(now time.Time, validity time.Duration) (*authority, error) {
	template, key, err := newTemplate(now, validity)
	if err != nil {
		return nil, fmt.Errorf("create certificate authority: %w", err)
	}
	template.Subject.CommonName = fmt.Sprintf("authority %x", template.SerialNumber)
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.MaxPathLenZero = true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("create certificate authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("create certificate authority: %w", err)
	}
	return &authority{cert: cert, key: key}, nil
}

// issue signs a new serving certificate for the hosts. It never outlives the authority.
func (a *authority) issue(now time.Time, validity time.Duration, hosts []string) (*tls.Certificate, error) {
	template, key, err := newTemplate(now, min(validity, a.cert.NotAfter.Sub(now)))
	if err != nil {
		return nil, fmt.Errorf("create serving certificate: %w", err)
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
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("create serving certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("create serving certificate: %w", err)
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

// renewalTime returns the time when one of our certificates should be replaced: after two thirds of its lifetime.
func renewalTime(cert *x509.Certificate) time.Time {
	lifetime := cert.NotAfter.Sub(cert.NotBefore.Add(backdate))
	return cert.NotAfter.Add(-lifetime / 3)
}
