package leadership

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// errOver is the error of a write after the end of the tenure. It is a cancellation: the cloud or the API server is not
// at fault.
var errOver = fmt.Errorf("the lease has expired and another replica may be the leader: %w", context.Canceled)

// Tenure determines whether this process may still act as the leader: until its lease expires, counted from the time
// when it sent the last successful renewal. Other candidates count from a later time. With client-go alone, a leader
// that was paused, for example with its machine, keeps working at the same time as its successor until it has failed to
// renew for the whole renew deadline.
//
// A nil Tenure never ends; it is for a process that leads without a lease.
type Tenure struct {
	duration time.Duration
	clock    clock.WithDelayedExecution

	mu      sync.Mutex
	renewed time.Time
	// epoch is the lease's number of transitions, which increases with every new leader; -1 if it is not known.
	epoch int64
	// floor is the least epoch that renewals of the lease write; see Raise.
	floor int64
	// fenced is the reason why the tenure has ended for good, or nil.
	fenced error
	// expiry cancels the writes in flight when the lease expires.
	expiry clock.Timer
	writes map[*write]struct{}
	// unanswered is the time of the last failure of a write that may have been sent.
	unanswered time.Time
	// closed is not nil once there are no new writes; it is closed when none is in flight.
	closed  chan struct{}
	settled bool
}

// NewTenure returns a Tenure that begins when the lease is first acquired. The clock must be monotonic.
func NewTenure(duration time.Duration, clock clock.WithDelayedExecution) *Tenure {
	return &Tenure{duration: duration, clock: clock, epoch: unknownEpoch, writes: map[*write]struct{}{}}
}

// unknownEpoch is the epoch before the lease was written.
const unknownEpoch = -1

// Guard rejects writes to the cloud or the API server outside of the tenure, and cancels those in flight when it ends. What
// is to be written to leases, Renew decides.
func (t *Tenure) Guard(next http.RoundTripper) http.RoundTripper {
	if t == nil {
		return next
	}
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead ||
			strings.Contains(r.URL.Path, "/apis/coordination.k8s.io/") {
			return next.RoundTrip(r)
		}
		return t.write(next, r)
	})
}

// Renew calls write, which writes the lease with the epoch; released is true if that gives it up. After the tenure has ended
// for good, Renew fails, so that the leader election gives up the lease and ends the process.
func (t *Tenure) Renew(epoch int64, released bool, write func() error) error {
	if err := t.ended(); err != nil {
		return err
	}
	sent := t.clock.Now()
	if err := write(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if released {
		t.renewed = time.Time{}
		t.cancel(errOver)
		return nil
	}
	t.renewed, t.epoch = sent, epoch
	if t.expiry != nil {
		t.expiry.Stop()
	}
	t.expiry = t.clock.AfterFunc(t.duration-t.clock.Since(sent), t.expire)
	return nil
}

func (t *Tenure) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.holds() {
		t.cancel(errOver)
	}
}

// End ends the tenure for good, because the cloud has seen a later leader: writes and renewals of the lease fail from
// now on.
func (t *Tenure) End(reason error) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fenced == nil {
		// It is a cancellation, like errOver: what was not sent must not look like another answer of the cloud.
		t.fenced = fmt.Errorf("leadership has ended: %s: %w", reason.Error(), context.Canceled)
	}
	t.cancel(t.fenced)
}

// Fence returns what identifies the tenure to the cloud, <cluster-uid>;epoch=<n>, where the epoch increases with every
// leader of the cluster. It is empty before the first tenure, and for a nil Tenure.
func (t *Tenure) Fence(clusterUID string) string {
	epoch, ok := t.Epoch()
	if !ok {
		return ""
	}
	return clusterUID + ";epoch=" + strconv.FormatInt(epoch, 10)
}

// Epoch returns the number of transitions of the lease, which increases with every leader. It is not known before the
// first tenure, and for a nil Tenure.
func (t *Tenure) Epoch() (epoch int64, known bool) {
	if t == nil {
		return 0, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.epoch, t.epoch != unknownEpoch
}

// Raise makes the next renewal of the lease raise its number of transitions to at least the epoch: the cloud has seen a
// higher one, although this process holds the lease, because the lease was deleted or etcd was restored from a backup. A
// former leader cannot renew the lease, so for it this has no effect.
func (t *Tenure) Raise(epoch int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.floor = max(t.floor, epoch)
}

// Floor returns the least number of transitions that the lease must be renewed with.
func (t *Tenure) Floor() int64 {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.floor
}

func (t *Tenure) ended() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fenced
}

// holds reports whether the lease has not expired; callers hold the lock.
func (t *Tenure) holds() bool {
	return t.fenced == nil && !t.renewed.IsZero() && t.clock.Since(t.renewed) < t.duration
}

// roundTripper adapts a function to an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
