package jobs

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/store"
)

// runner returns a runner of jobs that take a minute, and the clock that it goes by.
func runner(t *testing.T) (*Runner, *clocktesting.FakeClock) {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	s, err := store.Open(filepath.Join(t.TempDir(), "state.db"), clock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &Runner{
		Store: s, Clock: clock, Duration: time.Minute, Logger: slog.New(slog.DiscardHandler),
		Work:   func(context.Context, *cloudv1.Job) *cloudv1.Problem { return nil },
		Finish: func(*store.Tx, *cloudv1.Job, bool) error { return nil },
	}, clock
}

func on(id string) cloudv1.Reference { return cloudv1.Reference{Kind: "load-balancer", ID: id} }

// enqueue adds jobs, each with its own id and a target, in pairs.
func enqueue(t *testing.T, r *Runner, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		err := r.Store.Update(func(tx *store.Tx) error {
			_, err := Enqueue(tx, pairs[i], "update", on(pairs[i+1]), nil)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func states(t *testing.T, r *Runner) map[string]cloudv1.JobState {
	t.Helper()
	all := map[string]cloudv1.JobState{}
	err := r.Store.View(func(tx *store.Tx) error {
		return store.Jobs.Each(tx, func(j *cloudv1.Job) error {
			all[j.ID] = j.State
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func expect(t *testing.T, r *Runner, want map[string]cloudv1.JobState) {
	t.Helper()
	if d := cmp.Diff(want, states(t, r)); d != "" {
		t.Errorf("states of jobs (-want +got):\n%s", d)
	}
}

func TestTroubleWithOneJobDoesNotDelayOthers(t *testing.T) {
	r, clock := runner(t)
	broken := true
	boom := errors.New("boom")
	r.Finish = func(_ *store.Tx, j *cloudv1.Job, _ bool) error {
		if broken && j.Target.ID == "a" {
			return boom
		}
		return nil
	}
	enqueue(t, r, "a1", "a", "a2", "a", "b1", "b")
	left, err := r.step(t.Context())
	if err != nil || left != time.Minute {
		t.Fatal(left, err)
	}
	expect(t, r, map[string]cloudv1.JobState{
		"a1": cloudv1.JobRunning, "a2": cloudv1.JobQueued, "b1": cloudv1.JobRunning,
	})
	clock.Step(time.Minute)
	if _, err := r.step(t.Context()); !errors.Is(err, boom) {
		t.Errorf("the trouble: %v", err)
	}
	expect(t, r, map[string]cloudv1.JobState{
		"a1": cloudv1.JobRunning, "a2": cloudv1.JobQueued, "b1": cloudv1.JobSucceeded,
	})
	broken = false
	if _, err := r.step(t.Context()); err != nil {
		t.Error(err)
	}
	expect(t, r, map[string]cloudv1.JobState{
		"a1": cloudv1.JobSucceeded, "a2": cloudv1.JobQueued, "b1": cloudv1.JobSucceeded,
	})
}

func TestJobsFail(t *testing.T) {
	r, clock := runner(t)
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
	for range 2 {
		if _, err := r.step(t.Context()); err != nil {
			t.Fatal(err)
		}
		clock.Step(time.Minute)
		if _, err := r.step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]end{{"a1", full, true}, {"a2", nil, false}}, ends); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
	expect(t, r, map[string]cloudv1.JobState{
		"a1": cloudv1.JobFailed, "a2": cloudv1.JobSucceeded, "b1": cloudv1.JobFailed,
	})
}

// TestWorkIsOutsideOfTransactions checks that the cloud accepts writes while a job's work is done.
func TestWorkIsOutsideOfTransactions(t *testing.T) {
	r, clock := runner(t)
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
	if _, err := r.step(t.Context()); err != nil {
		t.Fatal(err)
	}
	clock.Step(time.Minute)
	if _, err := r.step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]bool{"a1": true}, open); d != "" {
		t.Errorf("whether more jobs are open (-want +got):\n%s", d)
	}
}
