// Package tlsfiles sends requests by TLS with certificates in files, which it reads again when they change.
package tlsfiles

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// maxAge is how long the content of files is used before they are read again, so that a change is noticed before the
// server rejects the former one.
const maxAge = 10 * time.Second

// Files names the files for connections by TLS, in PEM. Empty names mean the CAs of the system, and no client
// certificate. Files that change are read again.
type Files struct {
	// CA has the certificates of the authorities that are trusted, instead of those of the system.
	CA string
	// Cert and Key are the client certificate and its key; both or neither must be set.
	Cert, Key string
}

// Config reads the files.
func (f Files) Config() (*tls.Config, error) {
	content, err := f.read()
	if err != nil {
		return nil, err
	}
	return f.parse(content)
}

// pems is the content of Files.
type pems struct{ ca, cert, key []byte }

func (p pems) equal(o pems) bool {
	return bytes.Equal(p.ca, o.ca) && bytes.Equal(p.cert, o.cert) && bytes.Equal(p.key, o.key)
}

func (f Files) read() (pems, error) {
	var p pems
	for _, file := range []struct {
		path string
		to   *[]byte
	}{{f.CA, &p.ca}, {f.Cert, &p.cert}, {f.Key, &p.key}} {
		if file.path == "" {
			continue
		}
		data, err := os.ReadFile(file.path)
		if err != nil {
			return pems{}, fmt.Errorf("read file for TLS: %w", err)
		}
		*file.to = data
	}
	return p, nil
}

func (f Files) parse(p pems) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(p.ca) {
			return nil, fmt.Errorf("CA file %s: must contain certificates in PEM", f.CA)
		}
	}
	if f.Cert != "" || f.Key != "" {
		pair, err := tls.X509KeyPair(p.cert, p.key)
		if err != nil {
			return nil, fmt.Errorf("client certificate %s with key %s: %w", f.Cert, f.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// transport sends requests by TLS with the current content of files. Connections that use former content are closed
// when they become idle.
type transport struct {
	base  *http.Transport
	files Files
	clock clock.PassiveClock

	mu      sync.Mutex
	current *http.Transport
	content pems
	read    time.Time
}

// NewTransport returns base, or what sends requests as base does, but with the files.
func NewTransport(base *http.Transport, files Files, clock clock.PassiveClock) http.RoundTripper {
	if files == (Files{}) {
		return base
	}
	return &transport{base: base, files: files, clock: clock}
}

// RoundTrip sends one request.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	current, err := t.latest()
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper must close the body
		}
		return nil, err
	}
	return current.RoundTrip(r)
}

// latest returns a transport with the content of the files. If they cannot be used, for example because they are being
// replaced, it keeps the former one.
func (t *transport) latest() (*http.Transport, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current != nil && t.clock.Since(t.read) < maxAge {
		return t.current, nil
	}
	content, err := t.files.read()
	if err == nil && t.current != nil && content.equal(t.content) {
		t.read = t.clock.Now()
		return t.current, nil
	}
	var config *tls.Config
	if err == nil {
		config, err = t.files.parse(content)
	}
	switch {
	case err != nil && t.current == nil:
		return nil, err
	case err != nil:
		t.read = t.clock.Now()
		return t.current, nil
	}
	former := t.current
	t.current = t.base.Clone()
	t.current.TLSClientConfig = config
	t.content, t.read = content, t.clock.Now()
	if former != nil {
		former.CloseIdleConnections()
	}
	return t.current, nil
}
