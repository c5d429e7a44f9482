package cloudapi

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode"

	"quaymaster.dev/internal/mycloud/cloudapi/tlsfiles"
)

// idleConnections is the maximum number of idle connections to the cloud: at most as many as there are concurrent
// calls.
const idleConnections = 64

// dialTimeout limits how long a connection may take to be established.
const dialTimeout = 10 * time.Second

// keepAlive ends connections within half a minute if nothing comes back any more, for example because a firewall drops
// all packets. Otherwise a request for changes, which the cloud holds for long, would be waited for all the while.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}

func newTransport(files tlsfiles.Files, others bool) (http.RoundTripper, error) {
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
	return tlsfiles.NewTransport(base, files), nil
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

// TokenFile returns a token source that reads the file on every call, without surrounding white space. Errors contain the
// path and never the token.
func TokenFile(path string) func() (string, error) {
	return func() (string, error) {
		b, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("read token file: %w", err)
		}
		token := strings.TrimSpace(string(b))
		if err := checkToken(token); err != nil {
			return "", fmt.Errorf("token file %s: %w", path, err)
		}
		return token, nil
	}
}

func checkToken(token string) error {
	if token == "" {
		return errors.New("is empty; write the bearer token for the cloud to it")
	}
	bad := func(r rune) bool { return r > unicode.MaxASCII || unicode.IsSpace(r) || unicode.IsControl(r) }
	if strings.ContainsFunc(token, bad) {
		return errors.New("must contain only one token of printable ASCII characters without spaces")
	}
	return nil
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
