// Package cloudapi is a typed HTTP client of the mycloud API, whose types are in api/mycloud/v1.
package cloudapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi/pace"
	"quaymaster.dev/internal/mycloud/cloudapi/tlsfiles"
)

// defaultTimeout limits one request, unless Options says otherwise.
const defaultTimeout = time.Minute

// Options configures a Client.
type Options struct {
	// Endpoint is scheme, host and port of the API, without /v1.
	Endpoint string
	// OtherEndpoints are those of other servers of the same cloud. A call that one server cannot answer goes to another one if
	// it takes effect only once then; the calls after it go there in any case.
	OtherEndpoints []string
	// AllowInsecureHTTP allows an endpoint with http on another machine, to which the token is sent in the clear.
	AllowInsecureHTTP bool
	// Token returns the bearer token, which may be empty with a client certificate. It is called for the first request,
	// again after a 401, and every few seconds while there are requests.
	Token func() (string, error)
	// TLS names the files for TLS; all are optional.
	TLS tlsfiles.Files
	// Timeout limits one request, in addition to the time that the cloud is asked to hold the response; it defaults to
	// one minute.
	Timeout time.Duration
	// Wrap, if set, decorates the transport.
	Wrap func(http.RoundTripper) http.RoundTripper
	// UserAgent names the program; it defaults to quaymaster.
	UserAgent string
	// OnCall, if set, is called after every request, including repeated ones. It must not block.
	OnCall func(Call)
	// QuotaShare is the share of the quota advertised by the cloud that this client may use, above 0 and at most 1; it
	// defaults to one half.
	QuotaShare float64
	// Fence, if set, returns the value of cloudv1.HeaderFence for a write, or an empty string to send none.
	Fence func() string
	// OnFenced, if set, is called with the error if the cloud rejects a write because it has seen a later leader.
	OnFenced func(error)
	// Plan, if set, is called with every write in place of the cloud; the call fails with ErrPlanned. Reads and dry runs
	// are sent.
	Plan func(PlannedWrite)
	// Withhold, if set, is called before every write except a claim of the cluster UID. If it returns an error, the write
	// is not sent, and the caller gets the error.
	Withhold func(context.Context) error
	// OnNotHolder, if set, is called if the cloud rejects a write because another cluster holds the cluster UID.
	OnNotHolder func()
	// Identify, if set, is called before a call while it is not known that the cloud is the right one: at first, and after
	// an answer of a different cloud or of one that has lost what this client has seen. It calls Identity and then Expect,
	// or returns an error: then the call is not sent. Without it, any cloud is the right one.
	Identify func(context.Context) error
	// OnOtherState, if set, is called after such an answer.
	OnOtherState func()
	// Clock defaults to the real clock.
	Clock clock.Clock
}

// Client calls the mycloud API. It is safe for concurrent use. It does not retry, except once with a new token after
// a 401, and once at each of the other servers. It does not send what the cloud asked not to send: such calls fail at once with a *PostponedError.
type Client struct {
	o         Options
	endpoints *endpoints
	http      *http.Client
	gate      *pace.Gate
	continuity

	mu        sync.Mutex
	token     string
	tokenRead time.Time
}

// New returns a client. It does no I/O.
func New(o Options) (*Client, error) {
	o.Timeout, o.UserAgent = cmp.Or(o.Timeout, defaultTimeout), cmp.Or(o.UserAgent, "quaymaster")
	o.Clock = cmp.Or[clock.Clock](o.Clock, clock.RealClock{})
	servers, err := newEndpoints(append([]string{o.Endpoint}, o.OtherEndpoints...), o.AllowInsecureHTTP)
	if err != nil {
		return nil, err
	}
	if o.Token == nil {
		return nil, errors.New("token: must be set")
	}
	transport, err := newTransport(o.TLS, len(servers.all) > 1)
	if err != nil {
		return nil, err
	}
	if o.Wrap != nil {
		transport = o.Wrap(transport)
	}
	return &Client{
		o: o, endpoints: servers, gate: pace.New(pace.Options{Share: o.QuotaShare}),
		continuity: continuity{identify: o.Identify, onOtherState: o.OnOtherState},
		http: &http.Client{
			Transport: transport,
			// A redirect could send the token to another host, or turn a write into a read.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
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
	// Base is the load balancer that an update replaces, as last read. Members of its tree that this client does not know
	// are sent along: otherwise a client would erase the settings that only newer ones know.
	Base *cloudv1.LoadBalancer
}
