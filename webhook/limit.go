package webhook

import "sync"

const (
	// maxBodyBytes is the length of the largest AdmissionReview accepted. The API server accepts objects of up to 3
	// MiB, the AdmissionReview of an update contains two of them, and the rest of it stays below 1 MiB.
	maxBodyBytes = 7 << 20
	// maxBytesInFlight bounds the total length of bodies held at a time. A decoded object takes several times its
	// length in memory, so the largest requests are handled one at a time; more than a thousand ordinary ones fit.
	maxBytesInFlight = 8 << 20
)

// Limit bounds the number and the total size of concurrent requests, so that a burst makes the API server retry instead
// of exhausting this process's memory. Several handlers may share one Limit.
type Limit struct {
	maxRequests int

	mu       sync.Mutex
	requests int
	bytes    int64
}

// NewLimit returns a Limit of that many concurrent requests.
func NewLimit(requests int) *Limit { return &Limit{maxRequests: requests} }

// acquire reports whether a request with a body of size bytes may proceed; if so, it must be released. A rejected
// request is not counted, so that of many requests that do not fit together some proceed.
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
