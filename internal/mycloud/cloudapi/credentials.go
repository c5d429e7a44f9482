package cloudapi

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// idleConnections is the maximum number of idle connections to the cloud: at most as many as there are concurrent
// calls.
const idleConnections = 64

// dialTimeout limits how long a connection may take to be established.
const dialTimeout = 10 * time.Second

// keepAlive ends connections within half a minute if nothing comes back any more, for example because a firewall drops
// all packets. Otherwise a request for changes, which the cloud holds for long, would be waited for all the while.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}

// TLSFiles names the files for connections by TLS, in PEM. Empty names mean the CAs of the system, and no client
// certificate. Files that change are read again.
type TLSFiles struct {
	// CA has the certificates of the authorities that are trusted, instead of those of the system.
	CA string
	// Cert and Key are the client certificate and its key; both or neither must be set.
	Cert, Key string
}

// Config reads the files.
func (f TLSFiles) Config() (*tls.Config, error) {
	content, err := f.read()
	if err != nil {
		return nil, err
	}
	return f.parse(content)
}

// pems is the content of TLSFiles.
type pems struct{ ca, cert, key []byte }

func (p pems) equal(o pems) bool {
	return bytes.Equal(p.ca, o.ca) && bytes.Equal(p.cert, o.cert) && bytes.Equal(p.key, o.key)
}

func (f TLSFiles) read() (pems, error) {
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

func (f TLSFiles) parse(p pems) (*tls.Config, error) {
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
	files TLSFiles
	clock clock.PassiveClock

	mu      sync.Mutex
	current *http.Transport
	content pems
	read    time.Time
}

func newTransport(files TLSFiles, clock clock.PassiveClock, others bool) (http.RoundTripper, error) {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, fmt.Errorf("unexpected default transport %T", http.DefaultTransport)
	}
	base = base.Clone()
	base.MaxIdleConnsPerHost = idleConnections
	timeout := dialTimeout
	if others {
		timeout = othersDialTimeout
	}
	base.DialContext = (&net.Dialer{Timeout: timeout, KeepAliveConfig: keepAlive}).DialContext
	if files == (TLSFiles{}) {
		return base, nil
	}
	return &transport{base: base, files: files, clock: clock}, nil
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
	if t.current != nil && t.clock.Since(t.read) < credentialsAge {
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

// ErrInsecure is the error of an endpoint to which a token must not be sent.
var ErrInsecure = errors.New("must not send the token in the clear to a remote machine")

// CheckEndpoint returns ErrInsecure if the token would be sent in the clear to a remote machine.
func CheckEndpoint(u *url.URL) error {
	if u.Scheme == "http" && !loopback(u.Hostname()) {
		return ErrInsecure
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// credentialsAge is how long credentials are used before their files are read again, so that a change is noticed before
// the cloud rejects the former ones.
const credentialsAge = 10 * time.Second

// TokenFile returns a token source that reads the file on every call.
func TokenFile(path string) func() (string, error) {
	return func() (string, error) {
		b, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("read token: %w", err)
		}
		t := strings.TrimSpace(string(b))
		if t == "" {
			return "", fmt.Errorf("read token: %s is empty", path)
		}
		return t, nil
	}
}

// StaticToken returns a token source that always returns the same token.
func StaticToken(token string) func() (string, error) {
	return func() (string, error) { return token, nil }
}

// bearer returns the token to use. After a 401, rejected is the token that the cloud rejected: the source is called
// again. It is also called again after some time; if it fails then, the former token is used.
func (c *Client) bearer(rejected string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.token != "" && c.token != rejected
	if known && c.o.Clock.Since(c.tokenRead) < credentialsAge {
		return c.token, nil
	}
	t, err := c.o.Token()
	switch {
	case err != nil && known:
		return c.token, nil
	case err != nil:
		return "", err
	}
	c.token, c.tokenRead = t, c.o.Clock.Now()
	return t, nil
}
