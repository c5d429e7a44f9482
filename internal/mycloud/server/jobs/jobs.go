// Package jobs runs the cloud's asynchronous writes. Jobs are durable: they continue after a restart of the server.
//
// A job has three phases: one transaction claims it, the work is done outside of any transaction, and another
// transaction records the result. If the server stops in between, the work is done again. Jobs of different targets run
// at the same time.
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
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/store"
)

// retryPause is how long the runner waits after a failed write.
const retryPause = time.Second

// Runner runs jobs, those of each target in order.
type Runner struct {
	// Store holds the jobs.
	Store store.Store
	// Clock measures how long jobs run.
	Clock clock.Clock
	// Duration is how long a job runs before its work is done.
	Duration time.Duration
	// Work does what a job is for and returns nil or why it failed. It is called when the job has run for Duration, for
	// several jobs at the same time.
	Work func(ctx context.Context, job *cloudv1.Job) *cloudv1.Problem
	// Finish applies the result of a job in the transaction that ends it. The job's error is that of Work. open reports
	// whether more jobs of the same target are waiting. If Finish returns a *store.NotFoundError, the job fails.
	Finish func(tx *store.Tx, job *cloudv1.Job, open bool) error
	// Logger logs errors.
	Logger *slog.Logger
}

// Enqueue adds a job in the transaction that requires it. revision and tags are those of the target.
func Enqueue(
	tx *store.Tx, id, name string, target cloudv1.Reference, revision string, tags map[string]string,
) (*cloudv1.Job, error) {
	j := &cloudv1.Job{
		Object: cloudv1.Object{ID: id, Name: name, Tags: maps.Clone(tags)}, State: cloudv1.JobQueued, Target: target,
		TargetRevision: revision,
	}
	if _, err := store.Jobs.Put(tx, j); err != nil {
		return nil, err
	}
	// Revisions increase, so they serve as places in the queue; padded with zeros, they also sort as strings.
	place, err := strconv.ParseUint(j.Revision, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("place job %s in the queue: %w", id, err)
	}
	return j, store.OpenJobTargets.Set(tx, targetKey(target)+fmt.Sprintf("%020d", place), j.ID)
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

// Run runs jobs until ctx is done. It waits for the work in progress, which ends with ctx.
func (r *Runner) Run(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	// The jobs that are being worked on, as long as they are in the queue.
	started := map[string]bool{}
	for {
		changed := r.Store.Changed()
		claimed, err := r.claim(started)
		for _, e := range claimed {
			started[e.job.ID] = true
			working.Go(func() { r.perform(ctx, e) })
		}
		var again <-chan time.Time
		if err != nil {
			r.Logger.ErrorContext(ctx, "Could not run jobs", "error", err)
			again = r.Clock.After(retryPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-again:
		}
	}
}

// entry is a claimed job and its key in the queue.
type entry struct {
	key string
	job *cloudv1.Job
}

// claim starts the first open job of each target and returns those that have not been started by this runner. It removes
// from started the jobs that have left the queue.
func (r *Runner) claim(started map[string]bool) ([]entry, error) {
	var claimed []entry
	first := func(tx *store.Tx) error {
		claimed = nil
		open, err := store.OpenJobTargets.All(tx)
		if err != nil {
			return err
		}
		firsts, last := map[string]bool{}, ""
		for _, p := range open {
			target := p.Key[:strings.LastIndex(p.Key, "/")]
			if target == last {
				continue
			}
			last, firsts[p.Value] = target, true
			if started[p.Value] {
				continue
			}
			j, err := store.Jobs.Get(tx, p.Value)
			if err != nil {
				return err
			}
			claimed = append(claimed, entry{p.Key, j})
		}
		maps.DeleteFunc(started, func(id string, _ bool) bool { return !firsts[id] })
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
	if err != nil {
		return nil, err
	}
	return claimed, nil
}

// perform does the work of a claimed job and records the result. If ctx ends first, the next runner does it again.
func (r *Runner) perform(ctx context.Context, e entry) {
	// A clock that was set back must not hold the job for as long.
	if !r.pause(ctx, min(r.Duration, e.job.StartedAt.Add(r.Duration).Sub(r.Clock.Now()))) {
		return
	}
	fault := r.Work(ctx, e.job)
	for ctx.Err() == nil {
		err := r.record(e, fault)
		if err == nil {
			return
		}
		r.Logger.ErrorContext(ctx, "Could not end a job", "job", e.job.ID, "error", err)
		if !r.pause(ctx, retryPause) {
			return
		}
	}
}

// pause waits, and returns false if ctx is done.
func (r *Runner) pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := r.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
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
	return store.OpenJobTargets.Delete(tx, e.key)
}
