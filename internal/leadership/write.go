package leadership

import (
	"context"
	"io"
	"net/http"
)

// write is a write in flight.
type write struct{ cancel context.CancelCauseFunc }

// write sends a write if the tenure holds, and cancels it when the tenure ends before the response was read.
func (t *Tenure) write(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	w := &write{cancel}
	if err := t.begin(w); err != nil {
		cancel(err)
		closeBody(r)
		return nil, err
	}
	response, err := next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && r.Context().Err() == nil {
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
	if t.fenced != nil {
		return t.fenced
	}
	if !t.holds() {
		return errOver
	}
	t.writes[w] = struct{}{}
	return nil
}

func (t *Tenure) finish(w *write) {
	w.cancel(nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.writes, w)
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
