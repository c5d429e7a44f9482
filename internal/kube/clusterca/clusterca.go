// Package clusterca identifies a cluster by the certificate authority of its API server. Two clusters that were restored
// from the same backup of etcd share every object and UID, but not the key of this authority, unless it was restored,
// too.
package clusterca

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// trustedMax is the number of authorities up to which a client's bundle counts as the cluster's own. A larger one is
// that of an operating system or a company.
const trustedMax = 8

// Identity identifies a cluster. A fingerprint is sha256: and the SHA-256 hash of a public key, as that of kubeadm's
// --discovery-token-ca-cert-hash.
type Identity struct {
	// Proven is the fingerprint of the authority that issued the certificate of the API server.
	Proven string
	// Accepted are the fingerprints by which the cluster can be recognized: the proven one, and those of the other
	// authorities that its clients trust, because one of them is the next while the authority is being replaced.
	Accepted []string
}

// Observer learns the identity of a cluster from the responses of its API server. That a certificate was verified is
// the proof; what clients are configured to trust is not, because it is copied with etcd.
type Observer struct {
	trusted func() ([]byte, error)
	last    atomic.Pointer[observation]
}

// observation is what a response reveals.
type observation struct {
	host string
	tls  *tls.ConnectionState
}

// Observe returns an Observer of the responses to the clients that are created from the configuration.
func Observe(cfg *rest.Config) *Observer {
	data, file := cfg.CAData, cfg.CAFile
	o := &Observer{trusted: func() ([]byte, error) {
		if len(data) > 0 || file == "" {
			return data, nil
		}
		return os.ReadFile(file)
	}}
	cfg.Wrap(o.wrap)
	return o
}

func (o *Observer) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil {
			o.last.Store(&observation{host: r.URL.Host, tls: response.TLS})
		}
		return response, err
	})
}

// Identity returns the identity by the last response. A cluster whose certificate is not verified has its address in
// place of a fingerprint.
func (o *Observer) Identity() (Identity, error) {
	seen := o.last.Load()
	if seen == nil {
		return Identity{}, errors.New("the API server has not responded yet")
	}
	if seen.tls == nil || len(seen.tls.VerifiedChains) == 0 {
		address := "server:" + seen.host
		return Identity{Proven: address, Accepted: []string{address}}, nil
	}
	chain := seen.tls.VerifiedChains[0]
	id := Identity{Proven: fingerprint(chain[min(1, len(chain)-1)])}
	bundle, err := o.trusted()
	if err != nil {
		return Identity{}, fmt.Errorf("read the certificate authorities of the API server: %w", err)
	}
	id.Accepted = []string{id.Proven}
	if trusted := fingerprints(bundle); len(trusted) <= trustedMax {
		id.Accepted = append(id.Accepted, trusted...)
	}
	slices.Sort(id.Accepted)
	id.Accepted = slices.Compact(id.Accepted)
	return id, nil
}

// fingerprints returns those of the certificates in a bundle. What cannot be parsed is not trusted either.
func fingerprints(bundle []byte) []string {
	var all []string
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, fingerprint(certificate))
		}
	}
	return all
}

func fingerprint(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// roundTripper adapts a function to an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
