package leadership_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"quaymaster.dev/internal/kube/leadership"
)

// leader is a Tenure with the transport that it guards.
type leader struct {
	*leadership.Tenure
	guard http.RoundTripper
	// hang is true if writes hang until they are canceled.
	hang bool
}

func newLeader() *leader {
	l := &leader{Tenure: leadership.NewTenure(15*time.Second, clock.RealClock{})}
	l.guard = l.Guard(responder(func(r *http.Request) (*http.Response, error) {
		if l.hang {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}))
	return l
}

// renew writes the lease.
func (l *leader) renew(t *testing.T, epoch int64, released bool) {
	t.Helper()
	if err := l.Renew(epoch, released, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// send sends a write to the cloud.
func (l *leader) send(t *testing.T) error {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, balancers, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := l.guard.RoundTrip(r)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

const balancers = "https://cloud/v1/load-balancers"

// The fence has the epoch of the lease as it was written last.
func TestEpoch(t *testing.T) {
	l := newLeader()
	if got := l.Fence("uid"); got != "" {
		t.Errorf("fence %q before the first lease", got)
	}
	for _, epoch := range []int64{0, 7} {
		l.renew(t, epoch, false)
		if got, want := l.Fence("uid"), fmt.Sprintf("uid;epoch=%d", epoch); got != want {
			t.Errorf("fence %q, want %q", got, want)
		}
	}
}

func TestReleasedLeaseEndsTheTenure(t *testing.T) {
	l := newLeader()
	for _, released := range []bool{false, true, false} {
		l.renew(t, 1, released)
		if err := l.send(t); (err != nil) != released {
			t.Errorf("a write when the lease is released (%t): %v", released, err)
		}
	}
}

// A leader that the cloud has fenced writes no more, and gives up its lease by not renewing it.
func TestEnd(t *testing.T) {
	l := newLeader()
	l.renew(t, 1, false)
	fenced := errors.New("412 fenced")
	l.End(fenced)
	written := false
	for what, err := range map[string]error{
		"a write": l.send(t), "a renewal": l.Renew(1, false, func() error { written = true; return nil }),
	} {
		if !errors.Is(err, context.Canceled) || errors.Is(err, fenced) || !strings.Contains(err.Error(), fenced.Error()) {
			t.Errorf("%s: %v, want a cancellation because of %q", what, err, fenced)
		}
	}
	if written {
		t.Error("the lease was written")
	}
}

// Writes in flight are canceled when the lease expires, not before, and when the cloud fences the leader.
func TestWritesInFlight(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(*leader)
		want time.Duration
	}{
		"expired": {func(*leader) {}, 15 * time.Second},
		"renewed": {func(l *leader) { time.Sleep(10 * time.Second); l.renew(t, 1, false) }, 25 * time.Second},
		"fenced":  {func(l *leader) { time.Sleep(time.Second); l.End(errors.New("fenced")) }, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLeader()
				l.renew(t, 1, false)
				start := time.Now()
				l.hang = true
				go test.end(l)
				err := l.send(t)
				if took := time.Since(start); err == nil || took != test.want {
					t.Errorf("canceled after %s with %v, want %s", took, err, test.want)
				}
				if name != "fenced" && !errors.Is(err, context.Canceled) {
					t.Errorf("%v is no cancellation", err)
				}
			})
		})
	}
}
