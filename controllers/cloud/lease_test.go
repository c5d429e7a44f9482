package cloud

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"

	"quaymaster.dev/internal/kube/leadership"
)

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The lease is released only after the controllers have stopped and every write has been answered.
func TestReign(t *testing.T) {
	for name, tc := range map[string]struct {
		// write is what becomes of the write in flight, and stop how long the controllers need to stop.
		write    func(*http.Request) (*http.Response, error)
		stop     time.Duration
		released bool
	}{
		"in order": {released: true},
		"the write takes a while": {
			func(*http.Request) (*http.Response, error) {
				time.Sleep(stopLimit / 2)
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
			}, 0, true,
		},
		"the write has no answer": {
			func(*http.Request) (*http.Response, error) { return nil, errors.New("reset") }, 0, false,
		},
		"the write hangs": {
			func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() }, 0, false,
		},
		"a controller hangs": {stop: 2 * stopLimit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &Manager{tenure: leadership.NewTenure(time.Minute, clock.RealClock{})}
				m.once.Do(func() {})
				guard := m.Guard(transport(func(r *http.Request) (*http.Response, error) {
					if tc.write == nil {
						return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
					}
					return tc.write(r)
				}))
				put := func(ctx context.Context, url string) {
					r, err := http.NewRequestWithContext(ctx, http.MethodPut, url, http.NoBody)
					if err != nil {
						t.Error(err)
						return
					}
					if response, err := guard.RoundTrip(r); err == nil {
						_ = response.Body.Close()
					}
				}
				l := newLock(t, m.tenure)
				if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}); err != nil {
					t.Fatal(err)
				}
				ctx, end := context.WithCancel(t.Context())
				over := make(chan struct{})
				go func() {
					defer close(over)
					if err := m.reign(ctx, l, nil, func(ctx context.Context) error {
						put(ctx, "https://cloud/v1/load-balancers")
						<-ctx.Done()
						time.Sleep(tc.stop)
						return nil
					}); err != nil {
						t.Error(err)
					}
				}()
				synctest.Wait()
				none := resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1}
				if err := l.Update(t.Context(), none); err == nil {
					t.Error("the lease is released while the controllers run")
				}
				end()
				<-over
				if err := l.Update(t.Context(), none); (err == nil) != tc.released {
					t.Errorf("released with %v, want it %t", err, tc.released)
				}
				time.Sleep(2 * stopLimit)
			})
		})
	}
}

// A leader that has lost the lease writes nothing more, and its process ends with an error.
func TestLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &Manager{tenure: leadership.NewTenure(time.Minute, clock.RealClock{})}
		m.once.Do(func() {})
		l, lost := newLock(t, m.tenure), make(chan struct{})
		close(lost)
		err := m.reign(t.Context(), l, lost, func(ctx context.Context) error { <-ctx.Done(); return nil })
		if err == nil || !strings.Contains(err.Error(), "the lease was lost") {
			t.Errorf("got %v", err)
		}
		if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err == nil {
			t.Error("a lost lease is released")
		}
	})
}

// A leader that finds the lease as it was before its last renewal, whichever process held it then, writes nothing more, and its process
// ends: etcd was restored, and informers do not notice that. One that finds the lease as it has written it, or a successor's,
// goes on.
func TestRestoredLease(t *testing.T) {
	renewed := func(holder string, seconds int64) resourcelock.LeaderElectionRecord {
		return resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: 15, RenewTime: metav1.Unix(seconds, 1)}
	}
	for name, tc := range map[string]struct {
		stored   resourcelock.LeaderElectionRecord
		restored bool
	}{
		"its own":             {renewed("me", 1), true},
		"of a former leader":  {renewed("former", 1), true},
		"as it was written":   {renewed("me", 2), false},
		"that of a successor": {renewed("successor", 3), false},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Manager{tenure: leadership.NewTenure(time.Minute, clock.RealClock{})}
			m.once.Do(func() {})
			l := newLock(t, m.tenure)
			election, stop := context.WithCancel(t.Context())
			l.stop = stop
			for second := range int64(3) {
				if err := l.Update(t.Context(), renewed("me", second)); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Interface.Update(t.Context(), tc.stored); err != nil {
				t.Fatal(err)
			}
			if _, _, err := l.Get(t.Context()); errors.Is(err, errRestored) != tc.restored || (election.Err() != nil) != tc.restored {
				t.Errorf("error %v, election %v", err, election.Err())
			}
			lost := make(chan struct{})
			close(lost)
			err := m.reign(t.Context(), l, lost, func(ctx context.Context) error { <-ctx.Done(); return nil })
			if errors.Is(err, errRestored) != tc.restored {
				t.Errorf("the process ends with %v", err)
			}
		})
	}
}

// newLock returns the lock of a lease that this process holds.
func newLock(t *testing.T, tenure *leadership.Tenure) *lock {
	t.Helper()
	about := metav1.ObjectMeta{Namespace: "kube-system", Name: "x"}
	api := fake.NewClientset(&coordinationv1.Lease{ObjectMeta: about})
	lease := &resourcelock.LeaseLock{
		LeaseMeta: about, Client: api.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: "me"},
	}
	if _, _, err := lease.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &lock{Interface: lease, tenure: tenure}
}
