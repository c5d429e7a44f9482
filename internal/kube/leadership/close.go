package leadership

import (
	"context"
	"errors"
	"fmt"
)

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
