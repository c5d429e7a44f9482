package leadership

import (
	"context"
	"errors"
	"fmt"
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
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper must close the body
		}
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

// errClosed is the error of a write after the tenure was closed. It is a cancellation, like errOver.
var errClosed = fmt.Errorf("the process ends and writes nothing more: %w", context.Canceled)

// Close refuses new writes from now on, so that the lease can be released once those in flight have their answers. They
// go on even if their callers are canceled, which should follow.
func (t *Tenure) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed == nil {
		t.closed = make(chan struct{})
		t.settle()
	}
}

// settle records that no write is in flight after the tenure was closed; callers hold the lock.
func (t *Tenure) settle() {
	if t.closed != nil && !t.settled && len(t.writes) == 0 {
		t.settled = true
		close(t.closed)
	}
}

// Drain waits after Close until no write is in flight; if the context ends first, it cancels them. It returns an error
// unless every write of the last lease duration has an answer, as another one may still be carried out.
func (t *Tenure) Drain(ctx context.Context) error {
	select {
	case <-t.closed:
	case <-ctx.Done():
		t.mu.Lock()
		inFlight := len(t.writes)
		t.cancel(errClosed)
		t.mu.Unlock()
		if inFlight > 0 {
			return fmt.Errorf("%d writes have not been answered in time", inFlight)
		}
	}
	return t.answered()
}

// answered returns an error unless no write can still be carried out.
func (t *Tenure) answered() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.unanswered.IsZero() && t.clock.Since(t.unanswered) < t.duration {
		return errors.New("a write has not been answered and may still be carried out")
	}
	return nil
}
