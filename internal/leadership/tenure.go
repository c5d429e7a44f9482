package leadership

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// errOver is the error of a write after the end of the tenure.
var errOver = errors.New("the lease has expired and another replica may be the leader")

// Tenure determines whether this process may still act as the leader: until its lease expires, counted from the time
// when it sent the last successful renewal. Other candidates count from a later time. With client-go alone, a leader
// that was paused, for example with its machine, keeps working at the same time as its successor until it has failed to
// renew for the whole renew deadline.
//
// A nil Tenure never ends; it is for a process that leads without a lease.
type Tenure struct {
	duration time.Duration
	clock    clock.PassiveClock

	mu      sync.Mutex
	renewed time.Time
}

// NewTenure returns a Tenure that begins when the lease is first acquired. The clock must be monotonic.
func NewTenure(duration time.Duration, clock clock.PassiveClock) *Tenure {
	return &Tenure{duration: duration, clock: clock}
}

// Guard rejects writes to the cloud or the API server outside of the tenure. It observes renewals of the lease among
// the requests to the API server.
func (t *Tenure) Guard(next http.RoundTripper) http.RoundTripper {
	if t == nil {
		return next
	}
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		switch {
		case r.Method == http.MethodGet || r.Method == http.MethodHead:
			return next.RoundTrip(r)
		case strings.Contains(r.URL.Path, "/apis/coordination.k8s.io/"):
			sent := t.clock.Now()
			response, err := next.RoundTrip(r)
			if err == nil && response.StatusCode < http.StatusMultipleChoices {
				t.renew(sent)
			}
			return response, err
		case !t.holds():
			if r.Body != nil {
				_ = r.Body.Close() // a RoundTripper must close the body
			}
			return nil, errOver
		}
		return next.RoundTrip(r)
	})
}

func (t *Tenure) renew(sent time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renewed = sent
}

func (t *Tenure) holds() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.renewed.IsZero() && t.clock.Since(t.renewed) < t.duration
}

// roundTripper adapts a function to an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
