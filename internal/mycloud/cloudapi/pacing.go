package cloudapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"quaymaster.dev/internal/mycloud/cloudapi/pace"
)

// maxBudgetWait limits how long a call waits for budget before it fails: long enough for the next page of a list, too
// short to block a worker.
const maxBudgetWait = 2 * time.Second

// PostponedError is the error of a call that was not sent: the cloud asked for silence, the endpoint does not respond,
// or the budget is used up. It proves nothing about the object of the call. The same call may succeed later.
type PostponedError struct {
	// Operation is that of Call.
	Operation string
	// Reason is why the call was not sent.
	Reason pace.Reason
	// After is how long to wait before the next try.
	After time.Duration
	// cause is the error of the call that led to this, or nil.
	cause error
}

// Error returns operation, reason and cause. It omits the remaining time, so that it is the same on every try.
func (e *PostponedError) Error() string {
	what := map[pace.Reason]string{
		pace.ReasonSilence: "the cloud asked to wait",
		pace.ReasonCircuit: "the cloud does not respond",
		pace.ReasonBudget:  "the budget of requests is used up",
	}[e.Reason]
	s := fmt.Sprintf("%s: not sent: %s", e.Operation, what)
	if e.cause != nil {
		s += ": " + e.cause.Error()
	}
	return s
}

// Unwrap returns the error of the call that led to this. The RetryAfter of an *Error is the remaining time.
func (e *PostponedError) Unwrap() error { return e.cause }

// RetryAfter returns how long to wait before a failed call is repeated, because the cloud or the client's own budget
// asks for it; 0 if there is no such reason.
func RetryAfter(err error) time.Duration {
	if postponed, ok := errors.AsType[*PostponedError](err); ok {
		return postponed.After
	}
	if answer, ok := errors.AsType[*Error](err); ok {
		return answer.RetryAfter
	}
	return 0
}

// enter returns the pass for a request. It waits for budget if that takes only a moment.
func (c *Client) enter(ctx context.Context, r *request) (*pace.Pass, error) {
	entry, begun := r.entry(ctx)
	for left := maxBudgetWait; ; {
		now := c.o.Clock.Now()
		pass, refusal := c.gate.Enter(entry, now)
		if refusal == nil {
			begun()
			return pass, nil
		}
		deadline, limited := ctx.Deadline()
		// Work for a flow that has not begun comes back instead of keeping others waiting.
		if entry.Flow != "" && !entry.Continues || refusal.Reason != pace.ReasonBudget || refusal.After > left ||
			limited && deadline.Before(now.Add(refusal.After)) {
			return nil, postponed(r, refusal)
		}
		left -= refusal.After
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: %w", r, ctx.Err())
		case <-c.o.Clock.After(refusal.After):
		}
	}
}

func postponed(r *request, refusal *pace.Refusal) error {
	e := &PostponedError{
		Operation: r.operation(), Reason: refusal.Reason, After: refusal.After, cause: refusal.Cause,
	}
	if answer, ok := errors.AsType[*Error](refusal.Cause); ok {
		remaining := *answer
		remaining.RetryAfter = refusal.After
		e.cause = &remaining
	}
	return e
}

// outcome returns what the pace of requests must know of how one ended.
func outcome(code string, resp *response, err error) pace.Outcome {
	o := pace.Outcome{Canceled: code == CallCanceled, Err: err}
	if resp != nil {
		o.Limits = pace.ParseLimits(resp.header)
	}
	if answer, ok := errors.AsType[*Error](err); ok {
		o.RetryAfter = answer.RetryAfter
		o.Throttled = answer.Status == http.StatusTooManyRequests
		o.Unavailable = answer.Status == http.StatusServiceUnavailable
	}
	switch code {
	case CallTimeout, CallConnection, CallInvalidResponse, "500", "502", "503", "504":
		o.Failed = true
	}
	return o
}

// Pace returns the state of what delays calls, for metrics.
func (c *Client) Pace() pace.State { return c.gate.State(c.o.Clock.Now()) }

// Safety is the class of reads that prevent harm: whether a machine exists, or whether an object is what a write expects.
// Part of the budget is reserved for them. Without WithClass, reads are of class pace.Poll.
const Safety = pace.Safety

type (
	classKey struct{}
	workKey  struct{}
)

// WithClass returns a context whose reads are of the class. The class of a write depends on the write alone.
func WithClass(ctx context.Context, c pace.Class) context.Context {
	return context.WithValue(ctx, classKey{}, c)
}

// work is something that is done for a flow, with several calls.
type work struct {
	flow string
	// begun is true after the first call.
	begun atomic.Bool
}

// WithFlow returns a context for one piece of work on behalf of a flow, such as a namespace. Flows share the budget, so
// that none can keep it from the others, however many calls it needs.
func WithFlow(ctx context.Context, flow string) context.Context {
	return context.WithValue(ctx, workKey{}, &work{flow: flow})
}

func (r *request) class(ctx context.Context) pace.Class {
	switch {
	case r.nodes:
		return pace.Nodes
	case r.writes():
		return pace.Write
	}
	if c, ok := ctx.Value(classKey{}).(pace.Class); ok {
		return c
	}
	return pace.Poll
}

// entry describes the request for the Gate. begun must be called when it was let pass.
func (r *request) entry(ctx context.Context) (entry pace.Request, begun func()) {
	entry = pace.Request{Operation: r.operation(), Write: r.writes(), Class: r.class(ctx)}
	w, ok := ctx.Value(workKey{}).(*work)
	if !ok {
		return entry, func() {}
	}
	if entry.Flow = w.flow; entry.Class == pace.Safety {
		entry.Continues = true
		return entry, func() {}
	}
	entry.Continues = w.begun.Load()
	return entry, func() { w.begun.Store(true) }
}
