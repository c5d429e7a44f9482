package webhook

import "sync"

const (
	// maxBodyBytes is the longest review accepted. The API server takes objects of up to 3 MiB, the review of an update holds
	// two of them, and the rest of it stays below 1 MiB.
	maxBodyBytes = 7 << 20
	// maxBytesInFlight bounds the bodies held at the same time. A decoded object takes several times its length, so the largest
	// reviews come one by one; of ordinary ones, more than a thousand fit.
	maxBytesInFlight = 8 << 20
)

// Limit bounds what is handled at the same time, by number and by size, so that a burst costs the API server a retry rather than
// this process its memory. Several handlers may share one.
type Limit struct {
	maxRequests int

	mu       sync.Mutex
	requests int
	bytes    int64
}

// NewLimit allows so many requests at the same time.
func NewLimit(requests int) *Limit { return &Limit{maxRequests: requests} }

// acquire tells whether a request with a body of so many bytes may go on. If so, it must be released. One that may not leaves no
// trace, so that of many that do not fit together some get in.
func (l *Limit) acquire(size int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requests >= l.maxRequests || l.bytes+size > maxBytesInFlight {
		return false
	}
	l.requests++
	l.bytes += size
	return true
}

func (l *Limit) release(size int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests--
	l.bytes -= size
}
