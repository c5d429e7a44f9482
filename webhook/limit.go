package webhook

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// maxBodyBytes is more than any AdmissionReview has. The API server accepts objects of up to 3 MiB and stores up to
	// 1.5 MiB, and JSON needs six bytes for some characters: 27 MiB. Only what is read of a body needs memory.
	maxBodyBytes = 32 << 20
	// budgetBytes is how much of large bodies may have been read at a time, and reservedBytes the part of it that is only
	// for bodies of which at most modestBytes have been read: a few very large ones must not delay them.
	budgetBytes, reservedBytes, modestBytes = 8 << 20, 3 << 20, 256 << 10
	// patience is how long a body may keep us waiting altogether, while others wait for the budget that it holds. API servers
	// send bodies without a pause.
	patience = 200 * time.Millisecond
	// pollBudget is how often requests look whether there is budget for them.
	pollBudget = 5 * time.Millisecond
)

// Limit bounds what admission requests use at a time. Those beyond it wait. Handlers of the same server share one Limit.
type Limit struct {
	requests *semaphore.Weighted

	mu sync.Mutex
	// left is what is left of the budget. It is negative while overdrawn, the request that waited longest, has more than
	// there is, so that one goes on at any time.
	left      int
	overdrawn *share
	// waiting are the requests that wait for budget, in order of arrival, and holding those that have some.
	waiting []*share
	holding map[*share]struct{}
}

// NewLimit returns a Limit of that many concurrent requests.
func NewLimit(requests int) *Limit {
	return &Limit{
		requests: semaphore.NewWeighted(int64(requests)), left: budgetBytes, holding: map[*share]struct{}{},
	}
}

// acquire asks the context only if there is no room now.
func acquire(ctx context.Context, s *semaphore.Weighted) bool {
	return s.TryAcquire(1) || s.Acquire(ctx, 1) == nil
}

// share is what one large request holds of the budget. It reads the body.
type share struct {
	io.Reader
	limit *Limit
	// abort makes the body fail.
	abort func()

	// These are guarded by the Limit's lock: the bytes, how long the body has kept us waiting, and since when it does so
	// now; zero if it does not.
	held    int
	stalled time.Duration
	since   time.Time
}

// Read implements io.Reader.
func (s *share) Read(p []byte) (int, error) {
	s.wait(time.Now())
	n, err := s.Reader.Read(p)
	s.wait(time.Time{})
	return n, err
}

// wait notes since when the body keeps us waiting, or that it does not any more.
func (s *share) wait(since time.Time) {
	s.limit.mu.Lock()
	defer s.limit.mu.Unlock()
	if since.IsZero() {
		s.stalled += time.Since(s.since)
	}
	s.since = since
}

// grow waits until the request may hold that many bytes more. It reports false if the context ends before.
func (s *share) grow(ctx context.Context, n int) bool {
	l := s.limit
	for !l.take(s, n) {
		select {
		case <-ctx.Done():
			l.mu.Lock()
			l.leave(s)
			l.mu.Unlock()
			return false
		case <-time.After(pollBudget):
		}
	}
	return true
}

// take reports whether the request gets that many bytes more now. If not, it waits, and a request whose body keeps us
// waiting loses what it holds.
func (l *Limit) take(s *share, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.left
	if s.held+n > modestBytes {
		left -= reservedBytes
	}
	if n > left && l.overdrawn == nil && (len(l.waiting) == 0 || l.waiting[0] == s) {
		l.overdrawn = s
	}
	if n <= left || l.overdrawn == s {
		l.leave(s)
		l.left -= n
		s.held += n
		l.holding[s] = struct{}{}
		return true
	}
	if !slices.Contains(l.waiting, s) {
		l.waiting = append(l.waiting, s)
	}
	for other := range l.holding {
		if !other.since.IsZero() && other.stalled+time.Since(other.since) > patience {
			other.abort()
			break
		}
	}
	return false
}

// leave ends the waiting of a request. The caller holds the lock.
func (l *Limit) leave(s *share) {
	l.waiting = slices.DeleteFunc(l.waiting, func(other *share) bool { return other == s })
}

// release gives back what the request holds.
func (s *share) release() {
	l := s.limit
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left += s.held
	s.held = 0
	delete(l.holding, s)
	if l.overdrawn == s {
		l.overdrawn = nil
	}
}

// newShare returns the share of a request, which reads its body.
func (l *Limit) newShare(w http.ResponseWriter, body io.Reader) *share {
	return &share{Reader: body, limit: l, abort: func() {
		// A writer without deadlines, as in tests, has no body that stalls.
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	}}
}
