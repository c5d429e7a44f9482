package cloudapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// ErrOtherState is the error of a call that was answered by a different cloud, or by one that has lost what this client
// has seen. Nothing may be concluded from the answer.
var ErrOtherState = errors.New("the cloud is a different one, or was restored to an earlier state")

// errOtherCloud is ErrOtherState of a server that belongs to a different cloud.
var errOtherCloud = fmt.Errorf("%w: the server belongs to a different cloud", ErrOtherState)

// ErrUnidentified is wrapped by errors of Options.Identify if the cloud answers, but is not, or is not known to be, the
// right one.
var ErrUnidentified = errors.New("it is not known whether the cloud is this cluster's")

type identifiedKey struct{}

// WithIdentified returns a context for calls that fail with ErrOtherState, in place of identifying the cloud, if that is
// necessary again: Options.Identify itself may be waiting for them.
func WithIdentified(ctx context.Context) context.Context {
	return context.WithValue(ctx, identifiedKey{}, true)
}

type withinKey struct{}

// WithinState returns a context for work whose writes fail with ErrOtherState if the cloud is found to be a different one,
// or to have lost something, after the work has begun: what it has decided may be wrong.
func (c *Client) WithinState(ctx context.Context) context.Context {
	if c.identify == nil {
		return ctx
	}
	e, _ := c.current()
	return context.WithValue(ctx, withinKey{}, e)
}

// Within reports whether the cloud is still in the state in which the work of a context has begun: if not, nothing that
// was read for it may be kept. It is true without WithinState.
func (c *Client) Within(ctx context.Context) bool {
	e, _ := c.current()
	return within(ctx, e)
}

func within(ctx context.Context, now *expectation) bool {
	began, bound := ctx.Value(withinKey{}).(*expectation)
	return !bound || began != nil && began == now
}

// continuity makes sure that all answers are of the same cloud, and that it loses nothing unnoticed.
type continuity struct {
	identify     func(context.Context) error
	onOtherState func()

	stateMu sync.Mutex
	// expected is nil while it is not known which state the cloud must have. Each call to Expect replaces it.
	expected *expectation
}

// expectation is the last state that a cloud has reported.
type expectation struct{ id, revision string }

func (e *expectation) String() string { return e.id + ";revision=" + e.revision }

// Identity reads what identifies the cloud, whichever it is.
func (c *Client) Identity(ctx context.Context) (*cloudv1.Meta, error) {
	m, err := read[cloudv1.Meta](ctx, c, &request{method: http.MethodGet, path: "/v1/meta", identifies: true})
	if err != nil {
		return nil, err
	}
	if m.ID == "" || m.Revision == "" {
		return nil, errors.New("GET /v1/meta: the cloud has no id; upgrade it")
	}
	return m, nil
}

// Expect makes all further calls fail with ErrOtherState unless the cloud with the id answers, and in a state that
// includes the revision and whatever it answers from now on. It is only effective with Options.Identify.
func (c *Client) Expect(id, revision string) {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	c.expected = &expectation{id, revision}
}

// Expects reports whether it is known which state the cloud must have.
func (c *Client) Expects() bool {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	return c.expected != nil
}

// Elsewhere makes the next call ask another server, if there is one: the one that was asked belongs to a different cloud.
func (c *Client) Elsewhere() {
	number, _ := c.endpoints.use()
	c.endpoints.leave(number)
}

// Identify makes sure that the cloud is the right one, as every call does.
func (c *Client) Identify(ctx context.Context) error {
	return c.identified(ctx, &request{method: http.MethodGet, path: "/v1/meta"})
}

// identified makes sure that it is known which state the cloud must have, unless the request is about that.
func (c *continuity) identified(ctx context.Context, r *request) error {
	if c.identify == nil || r.identifies {
		return nil
	}
	if e, _ := c.current(); e != nil {
		return nil
	}
	err := ErrOtherState
	if ctx.Value(identifiedKey{}) == nil {
		err = c.identify(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: not sent: %w", r.operation(), err)
	}
	return nil
}

// expect returns what a request expects, and the header that says so; nil if any state will do.
func (c *continuity) expect(ctx context.Context, r *request) (*expectation, string, error) {
	if c.identify == nil || r.identifies {
		return nil, "", nil
	}
	e, header := c.current()
	if e == nil || r.writes() && !within(ctx, e) {
		return nil, "", fmt.Errorf("%s: not sent: %w", r.operation(), ErrOtherState)
	}
	return e, header, nil
}

func (c *continuity) current() (*expectation, string) {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	if c.expected == nil {
		return nil, ""
	}
	return c.expected, c.expected.String()
}

// verify returns an error if a response is not of the expected state, and remembers how far the cloud has got. Other
// errors than absence prove nothing anyway, so they may be a proxy's.
func (c *continuity) verify(r *request, e *expectation, resp *http.Response, failure error) error {
	if e == nil {
		return failure
	}
	id, revision, named := strings.Cut(resp.Header.Get(cloudv1.HeaderState), ";revision=")
	switch {
	case named && id != e.id:
		c.forsake(e)
		return fmt.Errorf("%s: %w", r, errOtherCloud)
	case HasCode(failure, cloudv1.CodeOtherState):
		c.forsake(e)
		return fmt.Errorf("%s: %w", r, ErrOtherState)
	case !named && (failure == nil || errors.Is(failure, ErrNotModified) || IsAbsent(failure)):
		return malformed(r, "header "+cloudv1.HeaderState+" is missing")
	case !named:
		return failure
	}
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	if c.expected != e {
		// What was read or written is that of a state that is lost by now.
		return fmt.Errorf("%s: %w", r, ErrOtherState)
	}
	if later, _ := Later(revision, e.revision); later {
		e.revision = revision
	}
	return failure
}

// forsake makes the next call identify the cloud again.
func (c *continuity) forsake(e *expectation) {
	c.stateMu.Lock()
	if c.expected == e {
		c.expected = nil
	}
	c.stateMu.Unlock()
	if c.onOtherState != nil {
		c.onOtherState()
	}
}

// Later reports whether revision a of one cloud is later than b. Revisions are numbers, with the name of a history behind a
// dot; known is false if one is not.
func Later(a, b string) (later, known bool) {
	number := func(revision string) (uint64, error) {
		digits, _, _ := strings.Cut(revision, ".")
		return strconv.ParseUint(digits, 10, 64)
	}
	x, err1 := number(a)
	y, err2 := number(b)
	return x > y, err1 == nil && err2 == nil
}

// Backup writes a backup of the cloud's state. What was written before an error is not one.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	_, err := c.do(ctx, &request{method: http.MethodGet, path: cloudv1.BackupPath, streams: true}, w)
	return err
}
