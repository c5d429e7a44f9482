// Package tlsfiles sends requests by TLS with certificates in files, which it reads again when they change.
package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"

	"quaymaster.dev/internal/reload"
)

// Files names the files for connections by TLS, in PEM. Empty names mean the CAs of the system, and no client
// certificate. Files that change are read again.
type Files struct {
	// CA has the certificates of the authorities that are trusted, instead of those of the system.
	CA string
	// Cert and Key are the client certificate and its key; both or neither must be set.
	Cert, Key string
}

// Config reads the files.
func (f Files) Config() (*tls.Config, error) { return reload.New(f.paths(), f.config, nil).Get() }

func (f Files) paths() []string { return []string{f.CA, f.Cert, f.Key} }

// config returns the configuration for the contents of CA, Cert and Key.
func (f Files) config(contents [][]byte) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(contents[0]) {
			return nil, fmt.Errorf("CA file %s: must contain certificates in PEM", f.CA)
		}
	}
	if f.Cert != "" || f.Key != "" {
		pair, err := tls.X509KeyPair(contents[1], contents[2])
		if err != nil {
			return nil, fmt.Errorf("client certificate %s with key %s: %w", f.Cert, f.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// transport sends requests by TLS with the current content of files.
type transport struct{ *reload.Files[*http.Transport] }

// NewTransport returns base, or what sends requests as base does, but with the files. Connections that use former content
// are closed when they become idle.
func NewTransport(base *http.Transport, files Files) http.RoundTripper {
	if files == (Files{}) {
		return base
	}
	var former *http.Transport
	return transport{reload.New(files.paths(), func(contents [][]byte) (*http.Transport, error) {
		config, err := files.config(contents)
		if err != nil {
			return nil, err
		}
		if former != nil {
			former.CloseIdleConnections()
		}
		former = base.Clone()
		former.TLSClientConfig = config
		return former, nil
	}, nil)}
}

// RoundTrip sends one request.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	current, err := t.Get()
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper must close the body
		}
		return nil, err
	}
	return current.RoundTrip(r)
}
