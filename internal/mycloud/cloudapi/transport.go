package cloudapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi/lossless"
	"quaymaster.dev/internal/mycloud/cloudapi/pace"
)

// maxBody limits how much of a response is read.
const maxBody = 64 << 20

// request is one call of the API.
type request struct {
	method string
	// path may contain {id} as the placeholder of id.
	path, id string
	query    url.Values
	header   map[string]string
	body     any
	// hold is how long the cloud may hold the response until there is news.
	hold time.Duration
	// asks means that a POST changes nothing.
	asks bool
	// unpaced means that the request is sent whatever the pace of requests: it has a rhythm of its own.
	unpaced bool
	// nodes means that the write decides which Nodes get traffic.
	nodes bool
	// claims means that the write claims the cluster UID, which other writes wait for.
	claims bool
	// streams means that the body of the response is copied, for as long as that takes.
	streams bool
	// identifies means that the request finds out which cloud it is, so that none is the wrong one.
	identifies bool
}

// writes reports whether the request changes something in the cloud.
func (r *request) writes() bool {
	return r.method != http.MethodGet && r.method != http.MethodHead && !r.asks
}

// target returns the path with the id. The id is escaped because ids are opaque and may contain anything.
func (r *request) target() string { return strings.Replace(r.path, "{id}", url.PathEscape(r.id), 1) }

// String names the request in errors.
func (r *request) String() string { return r.method + " " + r.target() }

// response holds what callers need of a response besides its body.
type response struct {
	status int
	header http.Header
}

func (o WriteOptions) request(method, path, id string, body any) *request {
	r := &request{method: method, path: path, id: id, body: body, header: map[string]string{}}
	if o.IfMatch != "" {
		r.header["If-Match"] = etag(o.IfMatch)
	}
	if len(o.IfTags) > 0 {
		pairs := make([]string, 0, len(o.IfTags))
		for _, k := range slices.Sorted(maps.Keys(o.IfTags)) {
			pairs = append(pairs, k+"="+o.IfTags[k])
		}
		r.header[cloudv1.HeaderIfTags] = strings.Join(pairs, ",")
	}
	if o.IdempotencyKey != "" {
		r.header[cloudv1.HeaderIdempotencyKey] = o.IdempotencyKey
	}
	if o.DryRun {
		r.query = url.Values{"dry_run": {"true"}}
	}
	return r
}

// do sends a request and decodes a successful response into out, unless out is nil.
func (c *Client) do(ctx context.Context, r *request, out any) (*response, error) {
	if err := c.identified(ctx, r); err != nil {
		return nil, err
	}
	if c.o.Withhold != nil && r.writes() && !r.claims {
		if err := c.o.Withhold(ctx); err != nil {
			return nil, fmt.Errorf("%s: not sent: %w", r.operation(), err)
		}
	}
	var body []byte
	if r.body != nil {
		var err error
		if body, err = json.Marshal(r.body); err != nil {
			return nil, fmt.Errorf("%s: encode request: %w", r, err)
		}
	}
	if c.plan(r, body) {
		return nil, fmt.Errorf("%s: %w", r, ErrPlanned)
	}
	id := rand.Text()
	token, err := c.bearer("")
	if err != nil {
		return nil, err
	}
	resp, err := c.call(ctx, r, body, id, token, out)
	if !unauthorized(err) {
		return resp, err
	}
	fresh, unread := c.bearer(token)
	switch {
	case unread != nil:
		return nil, unread
	case fresh == token:
		return nil, err
	}
	return c.call(ctx, r, body, id, fresh, out)
}

// call sends the request once, if the pace of requests allows it, and reports how it ended.
func (c *Client) call(ctx context.Context, r *request, body []byte, id, token string, out any) (*response, error) {
	var pass *pace.Pass
	if !r.unpaced {
		var err error
		if pass, err = c.enter(ctx, r); err != nil {
			return nil, err
		}
	}
	start := c.o.Clock.Now()
	resp, err := c.exchange(ctx, r, body, id, token, out)
	code := r.code(ctx, resp, err)
	if pass != nil {
		pass.Done(outcome(code, resp, err), c.o.Clock.Now())
	}
	if c.o.OnCall != nil {
		c.o.OnCall(Call{Operation: r.operation(), Code: code, Duration: c.o.Clock.Since(start)})
	}
	if c.o.OnFenced != nil && HasCode(err, cloudv1.CodeFenced) {
		c.o.OnFenced(err)
	}
	if c.o.OnNotHolder != nil && HasCode(err, cloudv1.CodeNotHolder) {
		c.o.OnNotHolder()
	}
	return resp, err
}

// exchange also returns a response that is an error. Its body has been read.
func (c *Client) exchange(
	caller context.Context, r *request, body []byte, id, token string, out any,
) (*response, error) {
	ctx := caller
	if !r.streams {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(caller, c.o.Timeout+r.hold)
		defer cancel()
	}
	for left := len(c.endpoints.all); ; left-- {
		var a attempt
		number, endpoint := c.endpoints.use()
		resp, err := c.exchangeWith(ctx, endpoint, &a, left, r, body, id, token, out)
		if errors.Is(err, errOtherCloud) {
			c.endpoints.leave(number) // for the next call: this one was made for what the cloud is not
		}
		if !elsewhere(caller, r, resp, err) {
			return resp, err
		}
		c.endpoints.leave(number)
		if left == 1 || ctx.Err() != nil || !a.repeatable(r, resp) {
			return resp, err
		}
	}
}

// exchangeWith is exchange with one server, after which others are left.
func (c *Client) exchangeWith(
	ctx context.Context, endpoint *url.URL, a *attempt, left int, r *request, body []byte, id, token string, out any,
) (*response, error) {
	expected, state, err := c.expect(ctx, r)
	if err != nil {
		return nil, err
	}
	ctx, begun, cancel := a.limit(ctx, r, left)
	defer cancel()
	resp, err := c.send(ctx, endpoint, r, body, id, token, state)
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		return nil, fmt.Errorf("%s: %s: %w", r, endpoint.Host, errSilent)
	}
	if err != nil {
		return nil, err
	}
	begun()
	defer func() { _ = resp.Body.Close() }()
	err = receive(r, resp, id, c.o.Clock.Now(), out)
	return &response{resp.StatusCode, resp.Header}, c.verify(r, expected, resp, err)
}

func (c *Client) send(
	ctx context.Context, endpoint *url.URL, r *request, body []byte, id, token, state string,
) (*http.Response, error) {
	target := endpoint.String() + r.target()
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, reader)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", cloudv1.MediaTypeJSON)
	}
	req.Header.Set("Accept", cloudv1.MediaTypeJSON+", "+cloudv1.MediaTypeProblem)
	for k, v := range r.header {
		req.Header.Set(k, v)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set(cloudv1.HeaderRequestID, id)
	if state != "" {
		req.Header.Set(cloudv1.HeaderState, state)
	}
	if c.o.Fence != nil && r.writes() {
		if fence := c.o.Fence(); fence != "" {
			req.Header.Set(cloudv1.HeaderFence, fence)
		}
	}
	req.Header.Set("User-Agent", c.o.UserAgent)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("mycloud: %w", err)
	}
	return resp, nil
}

// receive reads the whole response: one that is truncated is an error whatever its status, and so is a success that is
// not JSON.
func receive(r *request, resp *http.Response, id string, now time.Time, out any) error {
	if resp.StatusCode == http.StatusNotModified {
		return ErrNotModified
	}
	if w, ok := out.(io.Writer); ok && resp.StatusCode == http.StatusOK {
		if _, err := io.Copy(w, resp.Body); err != nil {
			return fmt.Errorf("%s: read response: %w", r, err)
		}
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return fmt.Errorf("%s: read response with status %d: %w", r, resp.StatusCode, err)
	}
	if len(body) > maxBody {
		return malformed(r, fmt.Sprintf("longer than %d bytes", maxBody))
	}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return failure(r, resp, mediaType, body, id, now)
	}
	if out == nil {
		return nil
	}
	if mediaType != cloudv1.MediaTypeJSON {
		return malformed(r, fmt.Sprintf("content type %q instead of %s", mediaType, cloudv1.MediaTypeJSON))
	}
	if err := lossless.Decode(body, out); err != nil {
		return fmt.Errorf("%s: %w: decode response: %w", r, errMalformed, err)
	}
	return nil
}

func failure(r *request, resp *http.Response, mediaType string, body []byte, id string, now time.Time) error {
	e := &Error{
		Method: r.method, Path: r.target(), Status: resp.StatusCode, RequestID: id,
		RetryAfter: retryAfter(resp.Header.Get("Retry-After"), now),
	}
	if mediaType == cloudv1.MediaTypeProblem {
		var p cloudv1.Problem
		if json.Unmarshal(body, &p) == nil && p.Code != "" {
			e.Problem = &p
		}
	}
	return e
}

// retryAfter parses the value of Retry-After, seconds or a date, and returns 0 for anything else. A cloud that asks to
// wait for a year is not obeyed.
func retryAfter(v string, now time.Time) time.Duration {
	if s, err := strconv.ParseUint(v, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(s, uint64(pace.MaxSilence/time.Second))) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return min(max(0, t.Sub(now)), pace.MaxSilence)
	}
	return 0
}

func etag(revision string) string { return `"` + revision + `"` }

// ErrPlanned is the error of a write that was passed to Options.Plan in place of the cloud.
var ErrPlanned = errors.New("planned, not sent")

// PlannedWrite is a request that changes something in the cloud, as it is sent.
type PlannedWrite struct {
	Method string
	// Path includes the API's version and the query.
	Path string
	// Header has the preconditions, the idempotency key and a content type other than JSON.
	Header map[string]string
	// Body is nil if there is none.
	Body []byte
}

// plan passes a write to Options.Plan, if that is set, and reports whether it did. Dry runs are no writes: they change
// nothing, and what is written next depends on them.
func (c *Client) plan(r *request, body []byte) bool {
	if c.o.Plan == nil || !r.writes() || r.query.Get("dry_run") != "" {
		return false
	}
	w := PlannedWrite{Method: r.method, Path: r.target(), Header: maps.Clone(r.header), Body: body}
	if len(r.query) > 0 {
		w.Path += "?" + r.query.Encode()
	}
	c.o.Plan(w)
	return true
}

// Call describes one request that has ended. Operation and Code have few values, so that metrics can use them as
// labels.
type Call struct {
	// Operation is the method and the path without ids, such as GET load-balancers/{id}.
	Operation string
	// Code is the HTTP status of the response or, without a response of the API, one of the codes below.
	Code string
	// Duration is the time until the response was read.
	Duration time.Duration
}

// The codes of calls without a response of the API.
const (
	// CallTimeout is the code if the response did not arrive in time.
	CallTimeout = "timeout"
	// CallConnection is the code if the connection failed.
	CallConnection = "connection"
	// CallCanceled is the code if the caller canceled the call.
	CallCanceled = "canceled"
	// CallInvalidResponse is the code of a success that is not of the API, such as a proxy's HTML.
	CallInvalidResponse = "invalid-response"
	// CallOtherState is the code of a response of a different cloud, or of one that was restored to an earlier state.
	CallOtherState = "other-state"
)

func (r *request) operation() string { return r.method + " " + strings.TrimPrefix(r.path, "/v1/") }

// code returns how the request ended.
func (r *request) code(ctx context.Context, resp *response, err error) string {
	var answer *Error
	var slow interface{ Timeout() bool }
	switch {
	case err == nil:
		return strconv.Itoa(resp.status)
	case errors.Is(err, ErrNotModified):
		return strconv.Itoa(http.StatusNotModified)
	case errors.Is(err, ErrOtherState):
		return CallOtherState
	case errors.As(err, &answer):
		return strconv.Itoa(answer.Status)
	case errors.Is(err, errMalformed):
		return CallInvalidResponse
	case errors.Is(err, context.Canceled), r.hold > 0 && ctx.Err() != nil:
		// A cloud that was asked to hold its response is not slow.
		return CallCanceled
	case errors.As(err, &slow) && slow.Timeout():
		return CallTimeout
	}
	return CallConnection
}
