package leadership

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// errOver is what a write ends with that comes too late.
var errOver = errors.New("the lease has run out, and another replica may lead")

// Tenure tells from inside whether this process may still act as leader: until its lease runs out, counted from when it asked for the
// last renewal that it got. Whoever else wants to lead counts from later. Client-go alone lets a leader that was paused, as by its
// machine, go on working beside its successor until it has failed to renew for the whole renew deadline.
//
// A nil Tenure has no end, for a process that leads without a lease.
type Tenure struct {
	duration time.Duration
	clock    clock.PassiveClock

	mu      sync.Mutex
	renewed time.Time
}

// NewTenure begins when the first lease is got. The clock must be monotonic.
func NewTenure(duration time.Duration, clock clock.PassiveClock) *Tenure {
	return &Tenure{duration: duration, clock: clock}
}

// Guard refuses writes outside of the tenure on their way to the cloud or the API server. There it sees the lease being renewed.
func (t *Tenure) Guard(next http.RoundTripper) http.RoundTripper {
	if t == nil {
		return next
	}
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		switch {
		case r.Method == http.MethodGet || r.Method == http.MethodHead:
			return next.RoundTrip(r)
		case strings.Contains(r.URL.Path, "/apis/coordination.k8s.io/"):
			asked := t.clock.Now()
			response, err := next.RoundTrip(r)
			if err == nil && response.StatusCode < http.StatusMultipleChoices {
				t.renew(asked)
			}
			return response, err
		case !t.holds():
			if r.Body != nil {
				_ = r.Body.Close() // as a RoundTripper must
			}
			return nil, errOver
		}
		return next.RoundTrip(r)
	})
}

func (t *Tenure) renew(asked time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renewed = asked
}

func (t *Tenure) holds() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.renewed.IsZero() && t.clock.Since(t.renewed) < t.duration
}

// roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
