package cloudapi

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

const (
	// attemptWait is how long a server may take to begin its response, besides the time that it holds it, before the client
	// asks another one. Where it must not ask another one, it waits for silentWait: longer than a server waits for its state.
	attemptWait, silentWait = 5 * time.Second, 15 * time.Second
	// othersDialTimeout is dialTimeout if there are other servers.
	othersDialTimeout = 3 * time.Second
)

// endpoints are the addresses of the servers of a cloud. All calls go to the same one until it fails: the next one to ask is
// then the same for all of them.
type endpoints struct {
	all []*url.URL

	mu      sync.Mutex
	current int
}

// newEndpoints checks the addresses. Clients begin with a random one, so that servers share them.
func newEndpoints(addresses []string, insecure bool) (*endpoints, error) {
	e := &endpoints{}
	for _, address := range addresses {
		u, err := parseEndpoint(address)
		if err != nil {
			return nil, err
		}
		if err := CheckEndpoint(u); err != nil && !insecure {
			return nil, fmt.Errorf("endpoint %q: %w", address, err)
		}
		if slices.ContainsFunc(e.all, func(other *url.URL) bool { return *other == *u }) {
			return nil, fmt.Errorf("endpoint %q: must not be repeated", address)
		}
		e.all = append(e.all, u)
	}
	e.current = rand.IntN(len(e.all)) //nolint:gosec // G404: no secret
	return e, nil
}

func parseEndpoint(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
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
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// use returns the endpoint to send to, and its number.
func (e *endpoints) use() (int, *url.URL) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.current, e.all[e.current]
}

// leave makes calls use the endpoint after the one with a number, unless they already use another one.
func (e *endpoints) leave(number int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current == number {
		e.current = (number + 1) % len(e.all)
	}
}

// attempt is one request to one server.
type attempt struct {
	// connected is true once there was a connection for the request: then the server may have it.
	connected atomic.Bool
}

// limit returns a context for an attempt, of which a number including this one are left, and what must be called when the
// response begins. A call does not wait long for one server if there are others.
func (a *attempt) limit(ctx context.Context, r *request, left int) (limited context.Context, begun, cancel func()) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { a.connected.Store(true) }})
	if left == 1 {
		return ctx, func() {}, func() {}
	}
	ctx, stop := context.WithCancelCause(ctx)
	timer := time.AfterFunc(patience(ctx, r, left), func() { stop(errSilent) })
	return ctx, func() { timer.Stop() }, func() { timer.Stop(); stop(nil) }
}

// patience returns how long to wait for one server, of which a number including this one are left.
func patience(ctx context.Context, r *request, left int) time.Duration {
	switch deadline, limited := ctx.Deadline(); {
	case !r.once():
		return silentWait
	case r.hold == 0 && limited:
		// The caller has to hear of another one in time.
		return min(attemptWait, time.Until(deadline)/time.Duration(left))
	}
	return attemptWait + r.hold
}

// errSilent is why an attempt ends if the server does not respond.
var errSilent error = silence{}

type silence struct{}

func (silence) Error() string { return "the server does not respond" }

// Timeout makes it count as a response that did not arrive in time.
func (silence) Timeout() bool { return true }

// elsewhere reports whether the end of an attempt is a reason to use another server from now on. ctx is that of the caller.
func elsewhere(ctx context.Context, r *request, resp *response, err error) bool {
	switch {
	case err == nil, errors.Is(err, ErrOtherState), errors.Is(err, ErrNotModified), errors.Is(err, errMalformed),
		// What has been copied cannot be taken back.
		r.streams && resp != nil && resp.status == http.StatusOK:
		return false
	case resp != nil && resp.status >= http.StatusMultipleChoices:
		return resp.status == http.StatusBadGateway || resp.status == http.StatusServiceUnavailable ||
			resp.status == http.StatusGatewayTimeout || resp.refused()
	}
	// A caller that waits no longer says nothing of a server that was asked to hold its response.
	return ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) && r.hold == 0
}

// once reports whether the request takes effect at most once, however often it arrives: it changes nothing, or the cloud knows
// that it is the same one.
func (r *request) once() bool { return !r.writes() || r.header[cloudv1.HeaderIdempotencyKey] != "" }

// repeatable reports whether a request may be sent to another server: it takes effect once, or had no connection at all, or
// the server has refused it.
func (a *attempt) repeatable(r *request, resp *response) bool {
	return r.once() || !a.connected.Load() || resp.refused()
}

// refused reports whether the server does not know the token. Another one may: its files, or its state, are newer.
func (r *response) refused() bool { return r != nil && r.status == http.StatusUnauthorized }
