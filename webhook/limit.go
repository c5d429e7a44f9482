package webhook

import "golang.org/x/sync/semaphore"

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
type Limit struct{ requests, bytes *semaphore.Weighted }

// NewLimit returns a Limit of that many concurrent requests.
func NewLimit(requests int) *Limit {
	return &Limit{requests: semaphore.NewWeighted(int64(requests)), bytes: semaphore.NewWeighted(maxBytesInFlight)}
}

// acquire reports whether a request with a body of size bytes may proceed; if so, it must be released. A rejected
// request holds nothing, so that of many requests that do not fit together some proceed.
func (l *Limit) acquire(size int64) bool {
	if !l.bytes.TryAcquire(size) {
		return false
	}
	if !l.requests.TryAcquire(1) {
		l.bytes.Release(size)
		return false
	}
	return true
}

func (l *Limit) release(size int64) {
	l.requests.Release(1)
	l.bytes.Release(size)
}
