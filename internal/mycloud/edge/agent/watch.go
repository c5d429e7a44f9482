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
