package webhook

import (
	"context"

	"golang.org/x/sync/semaphore"
)

const (
	// maxBodyBytes is more than any AdmissionReview has. The API server accepts objects of up to 3 MiB and stores up to
	// 1.5 MiB, and JSON needs six bytes for some characters. Only what is read of a body needs memory.
	maxBodyBytes = 64 << 20
	// largePlaces is the number of large requests that are handled at a time. Each takes milliseconds, and may need some
	// tens of MiB.
	largePlaces = 1
)

// Limit bounds what admission requests use at a time. Those beyond it wait, in order of arrival. Handlers of the same
// server share one Limit.
type Limit struct{ requests, large *semaphore.Weighted }

// NewLimit returns a Limit of that many concurrent requests.
func NewLimit(requests int) *Limit {
	return &Limit{requests: semaphore.NewWeighted(int64(requests)), large: semaphore.NewWeighted(largePlaces)}
}

// place is what one large request holds of a Limit.
type place struct {
	limit *Limit
	// large is true while the request counts as such.
	large bool
}

// enlarge waits until there is room for a request that has turned out to be large. It reports false if the context ends
// before.
func (p *place) enlarge(ctx context.Context) bool {
	p.large = acquire(ctx, p.limit.large)
	return p.large
}

// shrink makes room for other large requests.
func (p *place) shrink() {
	if p.large {
		p.limit.large.Release(1)
	}
	p.large = false
}

// acquire asks the context only if there is no room now.
func acquire(ctx context.Context, s *semaphore.Weighted) bool {
	return s.TryAcquire(1) || s.Acquire(ctx, 1) == nil
}
