package access

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"quaymaster.dev/internal/mycloud/server/store"
)

// strangerPause is the time between two reads of the state on behalf of requests without a known token.
const strangerPause = 100 * time.Millisecond

// Stranger makes the state current for requests whose sender is unknown, and for those that need no token. However many
// there are, they share a few reads a second.
type Stranger struct {
	store store.Store
	clock clock.Clock

	mu   sync.Mutex
	last time.Time
	// next is the read that has not begun.
	next *strangerRead
}

type strangerRead struct {
	done chan struct{}
	err  error
}

// NewStranger returns a Stranger for a state that servers share.
func NewStranger(s store.Store, c clock.Clock) *Stranger { return &Stranger{store: s, clock: c} }

// Current is that of the store, after a pause. Without a Stranger, the state is always current.
func (s *Stranger) Current(ctx context.Context) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	read, first := s.next, s.next == nil
	if first {
		read = &strangerRead{done: make(chan struct{})}
		s.next = read
	}
	wait := s.last.Add(strangerPause).Sub(s.clock.Now())
	s.mu.Unlock()
	if first {
		// Others wait for it, so that it does not end with its request.
		s.read(context.WithoutCancel(ctx), read, wait)
	}
	select {
	case <-read.done:
		return read.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
	}
}

func (s *Stranger) read(ctx context.Context, read *strangerRead, wait time.Duration) {
	if wait > 0 {
		s.clock.Sleep(wait)
	}
	s.mu.Lock()
	s.next, s.last = nil, s.clock.Now()
	s.mu.Unlock()
	read.err = s.store.Current(ctx)
	close(read.done)
}
