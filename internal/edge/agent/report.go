package agent

import (
	"context"
	"fmt"
	"reflect"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/internal/edge/state"
)

const (
	// defaultInterval is the time between heartbeats until the cloud has said what it expects.
	defaultInterval = 2 * time.Second
	// countersInterval is how often counters are sent.
	countersInterval = 10 * time.Second
)

// first returns the first n elements of a list, or all.
func first[T any](list []T, n int) []T { return list[:min(len(list), n)] }

// Cloud is the part of the cloud's API that the agent needs.
type Cloud interface {
	state.Cloud
	RegisterEdge(ctx context.Context, s cloudv1.EdgeSpec, o cloudapi.WriteOptions) (*cloudv1.Edge, error)
	Heartbeat(ctx context.Context, id string, h cloudv1.Heartbeat) (*cloudv1.HeartbeatReply, error)
}

// report is what the edge reports about itself.
type report struct {
	revision string
	faults   []cloudv1.EdgeFault
	health   []cloudv1.MemberHealth
	counters []cloudv1.ListenerCounter
}

// setReport changes the report and has it sent at once if there is news that others wait for.
func (a *Agent) setReport(change func(*report)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.report
	change(&a.report)
	// The cloud refuses a heartbeat with more, and counts an edge without heartbeats as offline.
	a.report.faults, a.report.health = first(a.report.faults, cloudv1.MaxFaults), first(a.report.health, cloudv1.MaxHealth)
	a.report.counters = first(a.report.counters, cloudv1.MaxCounters)
	if was.revision != a.report.revision || !reflect.DeepEqual(was.faults, a.report.faults) ||
		!reflect.DeepEqual(was.health, a.report.health) {
		signal(a.beat)
	}
}

func (a *Agent) currentReport() report {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.report
}

// reporter sends heartbeats.
type reporter struct {
	*Agent
	// id is the edge's id in the cloud; empty before it has registered.
	id       string
	interval time.Duration
	// sent is what the cloud knows; complete is false if it knows nothing.
	sent         report
	complete     bool
	countersSent time.Time
}

// reportPeriodically sends heartbeats until ctx is done.
func (a *Agent) reportPeriodically(ctx context.Context) {
	r := &reporter{Agent: a, interval: defaultInterval}
	failing := false
	for {
		err := r.send(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			a.Logger.WarnContext(ctx, "Could not send a heartbeat", "error", err)
		}
		failing = err != nil
		timer := a.Clock.NewTimer(r.interval)
		news := a.beat
		if failing {
			// News do not make the cloud answer.
			news = nil
		}
		select {
		case <-ctx.Done():
		case <-timer.C():
		case <-news:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// send registers the edge if necessary and sends one heartbeat.
func (r *reporter) send(ctx context.Context) error {
	if r.id == "" {
		edge, err := r.Cloud.RegisterEdge(ctx, r.Edge, cloudapi.WriteOptions{})
		if err != nil {
			return fmt.Errorf("register the edge: %w", err)
		}
		r.id, r.complete = edge.ID, false
	}
	now, current := r.Clock.Now(), r.currentReport()
	h := cloudv1.Heartbeat{AgentID: r.Edge.AgentID, AppliedRevision: current.revision, Faults: current.faults}
	if !r.complete || !reflect.DeepEqual(current.health, r.sent.health) {
		h.Health = &current.health
	}
	if !r.complete || now.Sub(r.countersSent) >= countersInterval {
		h.Counters = &current.counters
	}
	reply, err := r.Cloud.Heartbeat(ctx, r.id, h)
	if cloudapi.IsAbsent(err) || cloudapi.HasCode(err, cloudv1.CodeConflict) {
		// The edge was deleted, or another machine has taken its name meanwhile: it registers again.
		r.id = ""
	}
	if err != nil {
		return fmt.Errorf("send a heartbeat: %w", err)
	}
	if h.Counters != nil {
		r.countersSent = now
	}
	r.sent = current
	r.complete = reply.Complete
	if reply.IntervalMS > 0 {
		r.interval = time.Duration(reply.IntervalMS) * time.Millisecond
	}
	if !r.complete && (h.Health == nil || h.Counters == nil) {
		signal(r.beat)
	}
	return nil
}
