package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/store"
)

// newRunner returns a runner of jobs that take a minute of the time of the test's bubble.
func newRunner(t *testing.T) *Runner {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "state.db"), clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &Runner{
		Store: s, Clock: clock.RealClock{}, Duration: time.Minute, Logger: slog.New(slog.DiscardHandler),
		Work:   func(context.Context, *cloudv1.Job) *cloudv1.Problem { return nil },
		Finish: func(*store.Tx, *cloudv1.Job, bool) error { return nil },
	}
}

// run runs jobs until the function that it returns is called.
func run(t *testing.T, r *Runner) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(ctx)
	}()
	synctest.Wait()
	return func() {
		cancel()
		<-ended
	}
}

func on(id string) cloudv1.Reference { return cloudv1.Reference{Kind: "load-balancer", ID: id} }

// enqueue adds jobs, each with its own id and a target, in pairs.
func enqueue(t *testing.T, r *Runner, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		err := r.Store.Update(func(tx *store.Tx) error {
			_, err := Enqueue(tx, pairs[i], "update", on(pairs[i+1]), "1", nil)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// pass lets time pass and waits until there is nothing to do.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// expect compares the states of jobs, in pairs of id and state.
func expect(t *testing.T, r *Runner, pairs ...string) {
	t.Helper()
	got, want := map[string]string{}, map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		want[pairs[i]] = pairs[i+1]
	}
	err := r.Store.View(func(tx *store.Tx) error {
		return store.Jobs.Each(tx, func(j *cloudv1.Job) error {
			got[j.ID] = string(j.State)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("states of jobs (-want +got):\n%s", d)
	}
}

func TestTroubleWithOneJobDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t)
		var broken atomic.Bool
		broken.Store(true)
		r.Finish = func(_ *store.Tx, j *cloudv1.Job, _ bool) error {
			if broken.Load() && j.Target.ID == "a" {
				return errors.New("boom")
			}
			return nil
		}
		enqueue(t, r, "a1", "a", "a2", "a", "b1", "b")
		defer run(t, r)()
		expect(t, r, "a1", "running", "a2", "queued", "b1", "running")
		pass(time.Minute)
		expect(t, r, "a1", "running", "a2", "queued", "b1", "succeeded")
		broken.Store(false)
		pass(retryPause)
		expect(t, r, "a1", "succeeded", "a2", "running", "b1", "succeeded")
	})
}

func TestJobsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t)
		full := &cloudv1.Problem{Code: cloudv1.CodeCapacity, Detail: "no room"}
		r.Work = func(_ context.Context, j *cloudv1.Job) *cloudv1.Problem {
			if j.ID == "a1" {
				return full
			}
			return nil
		}
		type end struct {
			ID    string
			Error *cloudv1.Problem
			Open  bool
		}
		var ends []end
		r.Finish = func(_ *store.Tx, j *cloudv1.Job, open bool) error {
			if j.Target.ID == "gone" {
				return &store.NotFoundError{Kind: "load-balancer", ID: "gone"}
			}
			ends = append(ends, end{j.ID, j.Error, open})
			return nil
		}
		enqueue(t, r, "a1", "a", "a2", "a", "b1", "gone")
		defer run(t, r)()
		pass(2 * time.Minute)
		if d := cmp.Diff([]end{{"a1", full, true}, {"a2", nil, false}}, ends); d != "" {
			t.Errorf("results (-want +got):\n%s", d)
		}
		expect(t, r, "a1", "failed", "a2", "succeeded", "b1", "failed")
	})
}

// TestWorkIsOutsideOfTransactions checks that the cloud accepts writes while a job's work is done.
func TestWorkIsOutsideOfTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t)
		r.Work = func(_ context.Context, j *cloudv1.Job) *cloudv1.Problem {
			if j.ID == "a1" {
				enqueue(t, r, "a2", "a")
			}
			return nil
		}
		open := map[string]bool{}
		r.Finish = func(_ *store.Tx, j *cloudv1.Job, more bool) error {
			open[j.ID] = more
			return nil
		}
		enqueue(t, r, "a1", "a")
		defer run(t, r)()
		pass(time.Minute)
		if d := cmp.Diff(map[string]bool{"a1": true}, open); d != "" {
			t.Errorf("whether more jobs are open (-want +got):\n%s", d)
		}
	})
}

// TestJobsOfDifferentTargetsRunAtTheSameTime checks that work which waits delays only the jobs of its own target, and
// that a runner that stops leaves its jobs to the next one.
func TestJobsOfDifferentTargetsRunAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t)
		r.Duration = 0
		var begun []string
		release := make(chan struct{})
		r.Work = func(ctx context.Context, j *cloudv1.Job) *cloudv1.Problem {
			if j.Target.ID == "slow" {
				begun = append(begun, j.ID)
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			return nil
		}
		enqueue(t, r, "s1", "slow", "s2", "slow")
		for i := range 20 {
			enqueue(t, r, fmt.Sprintf("job-%d", i), fmt.Sprintf("quick-%d", i))
		}
		stop := run(t, r)
		want := []string{"s1", "running", "s2", "queued"}
		for i := range 20 {
			want = append(want, fmt.Sprintf("job-%d", i), "succeeded")
		}
		expect(t, r, want...)
		stop()
		expect(t, r, want...)
		stop = run(t, r)
		close(release)
		synctest.Wait()
		stop()
		if d := cmp.Diff([]string{"s1", "s1", "s2"}, begun); d != "" {
			t.Errorf("work that was begun (-want +got):\n%s", d)
		}
		want[1], want[3] = "succeeded", "succeeded"
		expect(t, r, want...)
	})
}

// TestClockSetBack checks that a clock that was set back while no server ran does not hold a job.
func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t)
		r.Duration = time.Minute
		enqueue(t, r, "a1", "a")
		if err := r.Store.Update(func(tx *store.Tx) error {
			j, err := store.Jobs.Get(tx, "a1")
			if err != nil {
				return err
			}
			tomorrow := tx.Now.Add(24 * time.Hour)
			j.State, j.StartedAt = cloudv1.JobRunning, &tomorrow
			_, err = store.Jobs.Put(tx, j)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer run(t, r)()
		pass(time.Minute)
		expect(t, r, "a1", "succeeded")
	})
}
