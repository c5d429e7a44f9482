package certs

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"time"
)

const (
	pemCertificate = "CERTIFICATE"
	// maxKept is the maximum number of other CAs in a bundle.
	maxKept = 8
	// maxSize is the maximum size of one of them in bytes; usual ones have one or two thousand.
	maxSize = 16 << 10
)

// mergeBundle adds our authorities to a bundle. Of the rest it keeps unexpired authorities that keep selects. The result
// does not depend on the replica, so that two replicas never keep overwriting each other's bundle: what one of them
// removes, no other adds again.
func mergeBundle(bundle []byte, ours []*x509.Certificate, keep func(*x509.Certificate) bool, now time.Time) []byte {
	var others []*x509.Certificate
	for _, cert := range parseBundle(bundle) {
		if !slices.ContainsFunc(ours, cert.Equal) && !now.After(cert.NotAfter) && len(cert.Raw) <= maxSize && keep(cert) {
			others = append(others, cert)
		}
	}
	slices.SortFunc(others, newestFirst)
	others = slices.CompactFunc(others, (*x509.Certificate).Equal)
	all := slices.Concat(ours, others[:min(len(others), maxKept)])
	slices.SortFunc(all, newestFirst)
	return encodeBundle(all)
}

func newestFirst(a, b *x509.Certificate) int {
	return cmp.Or(b.NotBefore.Compare(a.NotBefore), bytes.Compare(a.Raw, b.Raw))
}

// parseBundle returns the certificates of a bundle. It skips everything else, as the API server does.
func parseBundle(bundle []byte) []*x509.Certificate {
	var certs []*x509.Certificate
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return certs
		}
		if block.Type != pemCertificate {
			continue
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			certs = append(certs, cert)
		}
	}
}

func encodeBundle(certs []*x509.Certificate) []byte {
	var bundle []byte
	for _, cert := range certs {
		bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: cert.Raw})...)
	}
	return bundle
}
