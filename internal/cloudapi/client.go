// Package cloudapi is a typed HTTP client of the mycloud API, whose types are in api/mycloud/v1.
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

// Options configures a Client.
type Options struct {
	// Endpoint is scheme, host and port of the API, without /v1.
	Endpoint string
	// Token returns the bearer token. It is called for the first request and again after a 401.
	Token func() (string, error)
	// HTTPClient sends the requests; it defaults to a client with a timeout of one minute. Redirects are never followed.
	HTTPClient *http.Client
	// UserAgent names the program; it defaults to quaymaster.
	UserAgent string
	// OnCall, if set, is called after every request, including repeated ones. It must not block.
	OnCall func(Call)
}

// Client calls the mycloud API. It is safe for concurrent use. It does not retry, except once with a new token after
// a 401.
type Client struct {
	endpoint  *url.URL
	userAgent string
	http      *http.Client
	readToken func() (string, error)
	onCall    func(Call)

	mu    sync.Mutex
	token string
}

// New returns a client. It does no I/O.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.Endpoint)
	if err != nil {
		// The value may hold a password, so the error does not quote it.
		return nil, errors.New("endpoint: must be http://host:port or https://host:port")
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("endpoint %q: must be http://host:port or https://host:port", u.Redacted())
	}
	if p := strings.Trim(u.Path, "/"); p != "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("endpoint %q: must not have a user, a path or a query", u.Redacted())
	}
	if o.Token == nil {
		return nil, errors.New("token: must be set")
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
	// A redirect could send the token to another host, or turn a write into a read.
	hc := *o.HTTPClient
	hc.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{
		endpoint:  &url.URL{Scheme: u.Scheme, Host: u.Host},
		userAgent: o.UserAgent, http: &hc, readToken: o.Token, onCall: o.OnCall,
	}, nil
}

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
// again.
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

// ReadOptions configures a read.
type ReadOptions struct {
	// IfNoneMatch is the revision that the caller has; if the object still has it, the read returns ErrNotModified.
	IfNoneMatch string
}

// ListOptions selects the objects that match all its fields.
type ListOptions struct {
	Tags map[string]string
	// IDs has at most Limits.FilterIDs elements.
	IDs         []string
	Name, State string
	// IncludeDeleted adds tombstones.
	IncludeDeleted bool
	// IfNoneMatch is the revision of the collection that the caller has; if it is still current, the read returns
	// ErrNotModified.
	IfNoneMatch string
	// PageSize is the number of objects per page; 0 leaves it to the cloud.
	PageSize int
}

// WriteOptions holds the preconditions of a write.
type WriteOptions struct {
	// IfMatch is the revision that the object must have.
	IfMatch string
	// IfTags are tags that the object must have.
	IfTags map[string]string
	// IdempotencyKey makes a POST take effect once, however often it is sent.
	IdempotencyKey string
	// DryRun asks for the response without changing anything.
	DryRun bool
}
