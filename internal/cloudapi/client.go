package cloudapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// Options are what a Client needs.
type Options struct {
	// Endpoint is scheme, host and port of the API, without /v1.
	Endpoint string
	// Token gives the bearer token. It is called for the first request and again after a 401.
	Token func() (string, error)
	// HTTPClient sends the requests; nil is one that gives up after a minute. Redirects are never followed.
	HTTPClient *http.Client
	// UserAgent names the program; empty is quaymaster.
	UserAgent string
	// OnCall, if set, is told how every request ended, repeated ones included. It must not block.
	OnCall func(Call)
}

// Client speaks the mycloud API. It is safe for concurrent use. It repeats no request, but one that a stale token
// failed.
type Client struct {
	endpoint  *url.URL
	userAgent string
	http      *http.Client
	readToken func() (string, error)
	onCall    func(Call)

	mu    sync.Mutex
	token string
}

// New makes a client; it does no I/O.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.Endpoint)
	if err != nil {
		// The value is not repeated: it may hold a password.
		return nil, errors.New("endpoint: must be http://host:port or https://host:port")
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("endpoint %q: must be http://host:port or https://host:port", u.Redacted())
	}
	if p := strings.Trim(u.Path, "/"); p != "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("endpoint %q: must have neither user, path nor query", u.Redacted())
	}
	if o.Token == nil {
		return nil, errors.New("a source of the token is required")
	}
	if o.HTTPClient == nil {
		o.HTTPClient = &http.Client{Timeout: time.Minute}
	}
	if o.UserAgent == "" {
		o.UserAgent = "quaymaster"
	}
	if o.OnCall == nil {
		o.OnCall = func(Call) {}
	}
	// A redirect would carry the token elsewhere, or turn a write into a read.
	hc := *o.HTTPClient
	hc.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{
		endpoint:  &url.URL{Scheme: u.Scheme, Host: u.Host},
		userAgent: o.UserAgent, http: &hc, readToken: o.Token, onCall: o.OnCall,
	}, nil
}

// TokenFile reads the token from a file, whenever it is asked.
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

// StaticToken is a token that never changes.
func StaticToken(token string) func() (string, error) {
	return func() (string, error) { return token, nil }
}

// bearer gives the token to use. After a 401, rejected is the one that the cloud refused, and the source is asked again.
func (c *Client) bearer(rejected string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token != "" && c.token != rejected {
		return c.token, nil
	}
	t, err := c.readToken()
	if err != nil {
		return "", err
	}
	c.token = t
	return t, nil
}

// ReadOptions narrow a read.
type ReadOptions struct {
	// IfNoneMatch is the revision that the caller knows; the answer is ErrNotModified if it is still the revision.
	IfNoneMatch string
}

// ListOptions select what to list. All that is set must hold.
type ListOptions struct {
	Tags map[string]string
	// IDs are at most Limits.FilterIDs.
	IDs         []string
	Name, State string
	// IncludeDeleted adds tombstones.
	IncludeDeleted bool
	// IfNoneMatch is the collection's revision that the caller knows; the answer is ErrNotModified if it is still so.
	IfNoneMatch string
	// PageSize is how much to ask for at once; 0 leaves it to the cloud.
	PageSize int
}

// WriteOptions are the preconditions of a write.
type WriteOptions struct {
	// IfMatch is the revision that the object must have.
	IfMatch string
	// IfTags are tags that the object must bear.
	IfTags map[string]string
	// IdempotencyKey makes a POST take place once, however often it is sent.
	IdempotencyKey string
	// DryRun asks for the answer without the deed.
	DryRun bool
}
