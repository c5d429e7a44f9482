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
	// maxKept is the maximum number of authorities of other replicas and earlier runs in a bundle.
	maxKept = 8
)

// mergeBundle adds our authorities to a bundle. Of the rest it keeps the unexpired self-signed authorities of other
// replicas and of earlier runs; anything else verifies nothing that we serve. The result does not depend on the
// replica, so that two replicas never keep overwriting each other's bundle.
func mergeBundle(bundle []byte, ours []*x509.Certificate, now time.Time) []byte {
	kept := slices.DeleteFunc(parseBundle(bundle), func(c *x509.Certificate) bool {
		return !slices.Contains(c.Subject.Organization, organization) || now.After(c.NotAfter) ||
			slices.ContainsFunc(ours, c.Equal)
	})
	slices.SortFunc(kept, newestFirst)
	kept = kept[:min(len(kept), maxKept)]
	all := slices.Concat(ours, kept)
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
