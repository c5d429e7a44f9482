package env

import (
	"crypto/x509/pkix"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/keyutil"

	"quaymaster.dev/test/harness/authority"
)

// validity is the lifetime of certificates. A demonstration may run for days.
const validity = 365 * 24 * time.Hour

// pki issues the certificates of one control plane.
type pki struct {
	dir         string
	authority   *authority.Pair
	certificate string // file of the authority's certificate
}

func newPKI(dir string) (*pki, error) {
	p := &pki{dir: dir}
	var err error
	from, until := period()
	if p.authority, err = authority.Make(pkix.Name{CommonName: "quaymaster-test-ca"}, from, until); err != nil {
		return nil, err
	}
	p.certificate, _, err = p.authority.Write(dir, "ca")
	return p, err
}

func period() (from, until time.Time) { return time.Now().Add(-time.Minute), time.Now().Add(validity) }

// server issues a certificate for a server on loopback that is also valid for the given hosts.
func (p *pki) server(name string, hosts ...string) (certFile, keyFile string, err error) {
	from, until := period()
	pair, err := p.authority.IssueServing(name, from, until, append([]string{"localhost"}, hosts...)...)
	if err != nil {
		return "", "", err
	}
	return pair.Write(p.dir, name)
}

// ServingCertificate issues a certificate for a server on loopback that is also valid for the given hosts, and returns
// the certificate and key files.
func (e *Env) ServingCertificate(name string, hosts ...string) (certFile, keyFile string, err error) {
	return e.pki.server(name, hosts...)
}

// Authority returns the file with the CA certificate of the control plane.
func (e *Env) Authority() string { return e.pki.certificate }

// serviceAccountKey creates the key that signs ServiceAccount tokens and returns its file.
func (p *pki) serviceAccountKey() (string, error) {
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return "", fmt.Errorf("create ServiceAccount key: %w", err)
	}
	file := filepath.Join(p.dir, "service-accounts.key")
	return file, keyutil.WriteKey(file, key)
}
