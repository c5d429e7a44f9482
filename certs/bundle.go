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
	pemPrivateKey  = "PRIVATE KEY"
	// maxKept is the maximum number of authorities of other replicas and earlier runs in a bundle, and the maximum
	// number of foreign ones.
	maxKept = 8
	// maxForeign is the maximum size of a foreign authority in bytes; usual ones have one or two thousand.
	maxForeign = 16 << 10
	// keepForeign is how long foreign authorities stay in a bundle. When the source of certificates has changed, pods
	// with a certificate of the former source serve until a roll-out, perhaps a slow one, replaces them.
	keepForeign = 24 * time.Hour
)

// mergeBundle adds our authorities to a bundle. Of the rest it keeps unexpired authorities: those of other replicas and
// of earlier runs, and the foreign ones that keep selects. The result does not depend on the replica, so that two
// replicas never keep overwriting each other's bundle: what one of them removes, no other adds again.
func mergeBundle(bundle []byte, ours []*x509.Certificate, keep func(*x509.Certificate) bool, now time.Time) []byte {
	var replicas, foreign []*x509.Certificate
	for _, cert := range parseBundle(bundle) {
		switch {
		case now.After(cert.NotAfter) || slices.ContainsFunc(ours, cert.Equal):
		case slices.Contains(cert.Subject.Organization, organization):
			replicas = append(replicas, cert)
		case len(cert.Raw) <= maxForeign && keep(cert):
			foreign = append(foreign, cert)
		}
	}
	all := slices.Concat(ours, newest(replicas), newest(foreign))
	slices.SortFunc(all, newestFirst)
	return encodeBundle(all)
}

// newest returns the newest certificates, each once.
func newest(certs []*x509.Certificate) []*x509.Certificate {
	slices.SortFunc(certs, newestFirst)
	certs = slices.CompactFunc(certs, (*x509.Certificate).Equal)
	return certs[:min(len(certs), maxKept)]
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
