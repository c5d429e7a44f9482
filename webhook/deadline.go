package webhook

import (
	"context"
	"sync"
	"time"
)

// deadlineContext is a context with a deadline whose timer starts when something waits for it. Most requests are
// answered without waiting, so that they need no timer.
type deadlineContext struct {
	context.Context //nolint:containedctx // it is a context itself
	deadline        time.Time

	mu sync.Mutex
	// waited is the context with the timer; nil if nothing has waited.
	waited context.Context //nolint:containedctx // it is a part of this one
	cancel context.CancelFunc

	// place is what the request holds. It is here because the context is allocated anyway.
	place place
}

// withDeadline returns a context like context.WithDeadline, without the timer. The caller must call end.
func withDeadline(parent context.Context, deadline time.Time) *deadlineContext {
	return &deadlineContext{Context: parent, deadline: deadline}
}

// Deadline returns the deadline.
func (c *deadlineContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Done starts the timer.
func (c *deadlineContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waited == nil {
		c.waited, c.cancel = context.WithDeadline(c.Context, c.deadline)
	}
	return c.waited.Done()
}

// Err returns why the context has ended, or nil.
func (c *deadlineContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.waited != nil:
		return c.waited.Err()
	case c.Context.Err() != nil:
		return c.Context.Err()
	case !time.Now().Before(c.deadline):
		return context.DeadlineExceeded
	}
	return nil
}

// end releases the timer, if there is one.
func (c *deadlineContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.cancel()
	}
}
