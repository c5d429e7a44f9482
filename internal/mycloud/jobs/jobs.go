// Package jobs runs the cloud's asynchronous writes. Jobs are durable: they continue after a restart of the server.
package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
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
	// Finish applies the result of a job in the transaction that ends it. open reports whether more jobs of the same
	// target are waiting.
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
	if err := store.OpenJobs.Set(tx, fmt.Sprintf("%020d", place), j.ID); err != nil {
		return nil, err
	}
	return j, nil
}

// Last returns the id of the last open job of a target, or an empty string.
func Last(tx *store.Tx, target cloudv1.Reference) (string, error) {
	open, err := store.OpenJobs.All(tx)
	if err != nil {
		return "", err
	}
	for _, p := range slices.Backward(open) {
		j, err := store.Jobs.Get(tx, p.Value)
		if err != nil {
			return "", err
		}
		if j.Target == target {
			return j.ID, nil
		}
	}
	return "", nil
}

// Run runs jobs until ctx is done.
func (r *Runner) Run(ctx context.Context) {
	for {
		changed := r.Store.Changed()
		due, err := r.step()
		if err != nil {
			r.Logger.ErrorContext(ctx, "Could not run jobs", "error", err)
			due = retryPause
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

// step starts and ends the jobs that are due and returns the time until the next one is; 0 means on the next change.
func (r *Runner) step() (time.Duration, error) {
	var open []store.Pair
	err := r.Store.View(func(tx *store.Tx) (err error) {
		open, err = store.OpenJobs.All(tx)
		return err
	})
	if err != nil || len(open) == 0 {
		return 0, err
	}
	var next time.Duration
	err = r.Store.Update(func(tx *store.Tx) error {
		next = 0
		open, err := store.OpenJobs.All(tx)
		if err != nil {
			return err
		}
		targets, waiting, err := r.queues(tx, open)
		if err != nil {
			return err
		}
		for _, t := range targets {
			left, err := r.advance(tx, waiting[t])
			if err != nil {
				return err
			}
			if left > 0 && (next == 0 || left < next) {
				next = left
			}
		}
		return nil
	})
	return next, err
}

// entry is an open job and its place in the queue.
type entry struct {
	place string
	job   *cloudv1.Job
}

// queues returns the open jobs of each target in order, and the targets in the order of their first jobs.
func (r *Runner) queues(tx *store.Tx, open []store.Pair) ([]cloudv1.Reference, map[cloudv1.Reference][]entry, error) {
	var targets []cloudv1.Reference
	waiting := map[cloudv1.Reference][]entry{}
	for _, p := range open {
		j, err := store.Jobs.Get(tx, p.Value)
		if err != nil {
			return nil, nil, err
		}
		if len(waiting[j.Target]) == 0 {
			targets = append(targets, j.Target)
		}
		waiting[j.Target] = append(waiting[j.Target], entry{p.Key, j})
	}
	return targets, waiting, nil
}

// advance runs one target's queue and returns the remaining time of its first job, 0 if none is left.
func (r *Runner) advance(tx *store.Tx, queue []entry) (time.Duration, error) {
	for i, e := range queue {
		j := e.job
		if j.StartedAt == nil {
			now := tx.Now
			j.State, j.StartedAt = cloudv1.JobRunning, &now
			if _, err := store.Jobs.Put(tx, j); err != nil {
				return 0, err
			}
		}
		if left := j.StartedAt.Add(r.Duration).Sub(tx.Now); left > 0 {
			return left, nil
		}
		if err := r.Finish(tx, j, i < len(queue)-1); err != nil {
			return 0, err
		}
		now := tx.Now
		j.State, j.Progress, j.FinishedAt = cloudv1.JobSucceeded, 100, &now
		if _, err := store.Jobs.Put(tx, j); err != nil {
			return 0, err
		}
		if err := store.OpenJobs.Delete(tx, e.place); err != nil {
			return 0, err
		}
	}
	return 0, nil
}
