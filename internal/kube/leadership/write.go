package leadership

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
)

// write is a write in flight.
type write struct {
	cancel context.CancelCauseFunc
	// forget ends the link to the caller's context.
	forget func() bool
}

// write sends a write if the tenure holds, and cancels it when the tenure ends before the response was read. Unless the
// tenure is closed, the caller can cancel it, too.
func (t *Tenure) write(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	w := &write{cancel: cancel}
	w.forget = context.AfterFunc(r.Context(), func() { t.abandon(r.Context(), w) })
	if err := t.begin(w); err != nil {
		w.forget()
		cancel(err)
		closeBody(r)
		return nil, err
	}
	response, err := next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		t.fail(err)
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		t.finish(w)
		return nil, err
	}
	response.Body = &body{response.Body, func() { t.finish(w) }}
	return response, nil
}

func (t *Tenure) begin(w *write) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.fenced != nil:
		return t.fenced
	case t.closed != nil:
		return errClosed
	case !t.holds():
		return errOver
	}
	t.writes[w] = struct{}{}
	return nil
}

func (t *Tenure) finish(w *write) {
	w.forget()
	w.cancel(nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.writes, w)
	t.settle()
}

// abandon cancels a write whose caller has given up. A write in flight when the tenure is closed goes on: the callers
// are canceled because the process ends, and it may only give up the lease if it knows the outcome.
func (t *Tenure) abandon(caller context.Context, w *write) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed == nil || !errors.Is(caller.Err(), context.Canceled) {
		w.cancel(context.Cause(caller))
	}
}

// fail notes that a write has no answer, so that it may still be carried out, unless it was not even sent.
func (t *Tenure) fail(err error) {
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unanswered = t.clock.Now()
}

// cancel cancels all writes in flight; callers hold the lock.
func (t *Tenure) cancel(cause error) {
	for w := range t.writes {
		w.cancel(cause)
	}
}

// body is the body of a response; the write has ended when it is closed.
type body struct {
	io.ReadCloser
	finish func()
}

// Close closes the body.
func (b *body) Close() error {
	defer b.finish()
	return b.ReadCloser.Close()
}
