// Package jobs runs the cloud's asynchronous writes. Jobs are durable: they continue after a restart of the server.
//
// A job has three phases: one transaction claims it, the work is done outside of any transaction, and another
// transaction records the result. If the server stops in between, the work is done again.
package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/store"
)

// retryPause is how long the runner waits after a failed write.
const retryPause = time.Second

// Runner runs jobs, those of each target in order.
type Runner struct {
	// Store holds the jobs.
	Store *store.Store
	// Clock measures how long jobs run.
	Clock clock.Clock
	// Duration is how long a job runs; with 0, writes are synchronous and there are no jobs.
	Duration time.Duration
	// Work does what a job is for and returns nil or why it failed. It is called when the job has run for Duration.
	Work func(ctx context.Context, job *cloudv1.Job) *cloudv1.Problem
	// Finish applies the result of a job in the transaction that ends it. The job's error is that of Work. open reports
	// whether more jobs of the same target are waiting. If Finish returns a *store.NotFoundError, the job fails.
	Finish func(tx *store.Tx, job *cloudv1.Job, open bool) error
	// Logger logs errors.
	Logger *slog.Logger
}

// Enqueue adds a job in the transaction that requires it. tags are those of the target.
func Enqueue(
	tx *store.Tx, id, name string, target cloudv1.Reference, tags map[string]string,
) (*cloudv1.Job, error) {
	j := &cloudv1.Job{
		Object: cloudv1.Object{ID: id, Name: name, Tags: maps.Clone(tags)}, State: cloudv1.JobQueued, Target: target,
	}
	if _, err := store.Jobs.Put(tx, j); err != nil {
		return nil, err
	}
	// Revisions increase, so they serve as places in the queue; padded with zeros, they also sort as strings.
	place, err := strconv.ParseUint(j.Revision, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("place job %s in the queue: %w", id, err)
	}
	key := fmt.Sprintf("%020d", place)
	if err := store.OpenJobs.Set(tx, key, j.ID); err != nil {
		return nil, err
	}
	return j, store.OpenJobTargets.Set(tx, targetKey(target)+key, j.ID)
}

// targetKey returns what the keys of a target's open jobs begin with.
func targetKey(target cloudv1.Reference) string { return target.Kind + "/" + target.ID + "/" }

// Last returns the id of the last open job of a target, or an empty string.
func Last(tx *store.Tx, target cloudv1.Reference) string {
	open := store.OpenJobTargets.Prefixed(tx, targetKey(target))
	if len(open) == 0 {
		return ""
	}
	return open[len(open)-1].Value
}

// Run runs jobs until ctx is done.
func (r *Runner) Run(ctx context.Context) {
	for {
		changed := r.Store.Changed()
		due, err := r.step(ctx)
		if err != nil {
			r.Logger.ErrorContext(ctx, "Could not run jobs", "error", err)
			if due == 0 || due > retryPause {
				due = retryPause
			}
		}
		var timer clock.Timer
		var fire <-chan time.Time
		if due > 0 {
			timer = r.Clock.NewTimer(due)
			fire = timer.C()
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-fire:
		}
		if timer != nil {
			timer.Stop()
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// entry is a claimed job and its place in the queue.
type entry struct {
	place string
	job   *cloudv1.Job
}

// step runs the jobs that are due and returns the time until the next one is; 0 means on the next change. Trouble with
// one job does not delay those of other targets.
func (r *Runner) step(ctx context.Context) (time.Duration, error) {
	claimed, err := r.claim()
	if err != nil {
		return 0, err
	}
	var next time.Duration
	var trouble []error
	for _, e := range claimed {
		if left := e.job.StartedAt.Add(r.Duration).Sub(r.Clock.Now()); left > 0 {
			if next == 0 || left < next {
				next = left
			}
			continue
		}
		if ctx.Err() != nil {
			break
		}
		if err := r.record(e, r.Work(ctx, e.job)); err != nil {
			trouble = append(trouble, fmt.Errorf("end job %s: %w", e.job.ID, err))
		}
	}
	return next, errors.Join(trouble...)
}

// claim starts the first open job of each target and returns these jobs in the order of the queue.
func (r *Runner) claim() ([]entry, error) {
	var claimed []entry
	first := func(tx *store.Tx) error {
		claimed = nil
		open, err := store.OpenJobs.All(tx)
		if err != nil {
			return err
		}
		busy := map[cloudv1.Reference]bool{}
		for _, p := range open {
			j, err := store.Jobs.Get(tx, p.Value)
			if err != nil {
				return err
			}
			if !busy[j.Target] {
				busy[j.Target] = true
				claimed = append(claimed, entry{p.Key, j})
			}
		}
		return nil
	}
	if err := r.Store.View(first); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(claimed, func(e entry) bool { return e.job.StartedAt == nil }) {
		return claimed, nil
	}
	err := r.Store.Update(func(tx *store.Tx) error {
		if err := first(tx); err != nil {
			return err
		}
		for _, e := range claimed {
			if e.job.StartedAt != nil {
				continue
			}
			now := tx.Now
			e.job.State, e.job.StartedAt = cloudv1.JobRunning, &now
			if _, err := store.Jobs.Put(tx, e.job); err != nil {
				return err
			}
		}
		return nil
	})
	return claimed, err
}

// record ends a job. fault is why it failed, nil if it did not.
func (r *Runner) record(e entry, fault *cloudv1.Problem) error {
	err := r.Store.Update(func(tx *store.Tx) error { return r.end(tx, e, fault) })
	if none, gone := errors.AsType[*store.NotFoundError](err); gone && fault == nil {
		fault = &cloudv1.Problem{
			Type: "about:blank", Title: http.StatusText(http.StatusNotFound), Status: http.StatusNotFound,
			Code: cloudv1.CodeResourceNotFound, Detail: none.Error(),
		}
		return r.Store.Update(func(tx *store.Tx) error { return r.close(tx, e, fault) })
	}
	return err
}

// end applies the result of a job and closes it.
func (r *Runner) end(tx *store.Tx, e entry, fault *cloudv1.Problem) error {
	e.job.Error = fault
	if err := r.Finish(tx, e.job, Last(tx, e.job.Target) != e.job.ID); err != nil {
		return err
	}
	return r.close(tx, e, fault)
}

// close writes how a job ended and takes it from the queue.
func (r *Runner) close(tx *store.Tx, e entry, fault *cloudv1.Problem) error {
	now := tx.Now
	e.job.FinishedAt, e.job.Error = &now, fault
	e.job.State, e.job.Progress = cloudv1.JobSucceeded, 100
	if fault != nil {
		e.job.State, e.job.Progress = cloudv1.JobFailed, 0
	}
	if _, err := store.Jobs.Put(tx, e.job); err != nil {
		return err
	}
	if err := store.OpenJobTargets.Delete(tx, targetKey(e.job.Target)+e.place); err != nil {
		return err
	}
	return store.OpenJobs.Delete(tx, e.place)
}
