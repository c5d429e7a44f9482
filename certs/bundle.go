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
	// mostKept bounds how many authorities of others, replicas and earlier runs, stay in a bundle.
	mostKept = 8
)

// mergeBundle is the bundle with our authorities added. Of the rest it keeps the unexpired self-signed authorities of other
// replicas and of earlier runs; what else there was verifies nothing that we serve. The result does not depend on which
// replica asks, so that two never take turns in writing.
func mergeBundle(bundle []byte, ours []*x509.Certificate, now time.Time) []byte {
	kept := slices.DeleteFunc(parseBundle(bundle), func(c *x509.Certificate) bool {
		return !slices.Contains(c.Subject.Organization, organization) || now.After(c.NotAfter) || slices.ContainsFunc(ours, c.Equal)
	})
	slices.SortFunc(kept, newestFirst)
	kept = kept[:min(len(kept), mostKept)]
	all := slices.Concat(ours, kept)
	slices.SortFunc(all, newestFirst)
	return encodeBundle(all)
}

func newestFirst(a, b *x509.Certificate) int {
	return cmp.Or(b.NotBefore.Compare(a.NotBefore), bytes.Compare(a.Raw, b.Raw))
}

// parseBundle leaves out what is no certificate, as the API server's pool does.
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
