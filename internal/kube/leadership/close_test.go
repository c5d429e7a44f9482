package leadership_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"quaymaster.dev/internal/kube/leadership"
)

// slowWrite is how long the cloud takes to answer a write.
const slowWrite = 3 * time.Second

// The lease may be released only if no write can come later: Close lets the writes in flight end, even if their callers
// are canceled, refuses others, and Drain reports whether one of them may still be carried out.
func TestClose(t *testing.T) {
	for name, tc := range map[string]struct {
		// answer is what becomes of the write in flight; before is the age of the failure of another write.
		answer error
		before time.Duration
		limit  time.Duration
		took   time.Duration
		want   string
	}{
		"answered":              {limit: time.Minute, took: slowWrite},
		"not answered in time":  {limit: time.Second, took: time.Second, want: "1 writes have not been answered in time"},
		"connection reset":      {answer: errors.New("reset"), limit: time.Minute, took: slowWrite, want: "may still be carried out"},
		"never sent":            {answer: &net.OpError{Op: "dial", Err: errors.New("refused")}, limit: time.Minute, took: slowWrite},
		"another write failed":  {before: 5 * time.Second, limit: time.Minute, took: slowWrite, want: "may still be carried out"},
		"it failed long before": {before: 14 * time.Second, limit: time.Minute, took: slowWrite},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := errors.New("reset")
				tenure := leadership.NewTenure(15*time.Second, clock.RealClock{})
				guard := tenure.Guard(responder(func(r *http.Request) (*http.Response, error) {
					select {
					case <-time.After(slowWrite):
					case <-r.Context().Done():
						return nil, r.Context().Err()
					}
					return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, answer
				}))
				send := func(ctx context.Context) error {
					r, err := http.NewRequestWithContext(ctx, http.MethodPut, balancers, strings.NewReader("{}"))
					if err != nil {
						t.Fatal(err)
					}
					response, err := guard.RoundTrip(r)
					if err == nil {
						err = response.Body.Close()
					}
					return err
				}
				renew := func() {
					if err := tenure.Renew(1, false, func() error { return nil }); err != nil {
						t.Fatal(err)
					}
				}
				renew()
				if tc.before > 0 {
					_ = send(t.Context()) // it has no answer
					time.Sleep(tc.before - slowWrite/2)
					renew()
				}
				answer = tc.answer
				caller, stop := context.WithCancel(t.Context())
				sent := make(chan error, 1)
				go func() { sent <- send(caller) }()
				synctest.Wait()
				tenure.Close()
				stop()
				if err := send(t.Context()); !errors.Is(err, context.Canceled) {
					t.Errorf("a write after Close: %v", err)
				}
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), tc.limit)
				defer cancel()
				err := tenure.Drain(ctx)
				if got := time.Since(start); got != tc.took {
					t.Errorf("drained after %s, want %s", got, tc.took)
				}
				if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
					t.Errorf("drained with %v, want %q", err, tc.want)
				}
				if err := <-sent; tc.answer == nil && tc.limit > slowWrite && err != nil {
					t.Errorf("the write in flight: %v", err)
				}
				renew() // until the controllers have stopped, this replica remains the leader
			})
		})
	}
}

// A caller that gives up while the process does not end cancels its write.
func TestCallersCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeader()
		l.renew(t, 1, false)
		l.hang = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodPut, balancers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.guard.RoundTrip(r); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}
