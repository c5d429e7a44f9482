package agent

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// stuckAfter is how long a part of the agent may take, or the health of members be unknown, before the edge says so.
const stuckAfter = 10 * time.Second

// The parts of the agent.
const (
	partApply    = "apply"
	partAnnounce = "announce"
	partHealth   = "health"
)

// parts has what each part does that takes too long.
var parts = map[string]string{
	partApply: "the state of the cloud is being applied", partAnnounce: "addresses are being announced",
	partHealth: "the health of members has not been read",
}

// watch knows since when each part has done what it does: a step that has not ended, and for health the last time that it
// was read.
type watch struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	since map[string]time.Time
}

func (w *watch) begin(part string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since[part] = w.clock.Now()
}

func (w *watch) end(part string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.since, part)
}

// stuck returns the parts that have taken too long.
func (w *watch) stuck() map[string]time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := map[string]time.Duration{}
	for part, since := range w.since {
		if took := w.clock.Since(since); took > stuckAfter {
			found[part] = took.Round(time.Second)
		}
	}
	return found
}

// watchParts reports parts that are stuck until ctx is done. What they have reported before no longer counts.
func (a *Agent) watchParts(ctx context.Context) {
	ticker := a.Clock.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		stuck := a.watch.stuck()
		var list []cloudv1.EdgeFault
		for part, what := range parts {
			took, is := stuck[part]
			a.Metrics.stuck(part, took)
			if is {
				list = append(list, cloudv1.EdgeFault{Detail: fmt.Sprintf("%s for more than %s", what, stuckAfter)})
			}
		}
		if _, is := stuck[partHealth]; is {
			a.setReport(func(r *report) { r.health = []cloudv1.MemberHealth{} })
		}
		slices.SortFunc(list, compareFaults)
		a.setFaults(func(f *faults) { f.stuck = list })
	}
}

// silence is how long heartbeats may fail until the edge says that it does not follow the cloud.
const silence = 3 * defaultInterval

// follow notes the result of a request for changes.
func (a *Agent) follow(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.followed, a.unfollowed = true, err
}

// watchCloud logs and measures until ctx is done whether the edge follows the cloud. Requests for changes are held by the cloud, so that
// it takes a minute until one without an answer ends; heartbeats tell earlier.
func (a *Agent) watchCloud(ctx context.Context) {
	note := a.noteErrors(ctx, "Could not follow the cloud; the last state stays in force", "The cloud answers again")
	ticker := a.Clock.NewTicker(time.Second)
	defer ticker.Stop()
	for start := a.Clock.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		a.mu.Lock()
		followed, err := a.followed, a.unfollowed
		if a.Clock.Since(a.heard) > silence && a.Clock.Since(start) > silence {
			err = fmt.Errorf("no heartbeat has succeeded for more than %s", silence)
		}
		a.mu.Unlock()
		a.Metrics.following(followed && err == nil)
		a.Metrics.misled(a.Identity.misled())
		note(err)
	}
}
