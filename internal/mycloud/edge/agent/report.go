package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/edge/state"
)

const (
	// defaultInterval is the time between heartbeats until the cloud has said what it expects.
	defaultInterval = 2 * time.Second
	// heartbeatTimeout limits a heartbeat: the next one may get through when the network comes back.
	heartbeatTimeout = 10 * time.Second
	// countersInterval is how often counters are sent.
	countersInterval = 10 * time.Second
)

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
	a.report = a.report.bounded()
	if was.revision != a.report.revision || !slices.Equal(was.faults, a.report.faults) ||
		!slices.Equal(was.health, a.report.health) {
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
	// complete is false if the cloud knows nothing of the edge, health is what it knows.
	complete     bool
	health       sentHealth
	countersSent time.Time
	// announced is what the cloud knows of the announcements.
	announced []string
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
	if current.counters == nil {
		// As null, they would be missing, and the cloud would ask for everything again.
		current.counters = []cloudv1.ListenerCounter{}
	}
	h := cloudv1.Heartbeat{AppliedRevision: current.revision, Faults: current.faults}
	if !r.complete {
		r.health = sentHealth{known: map[reportedMember]cloudv1.MemberHealth{}}
	}
	changes, more := r.health.changes(current.health)
	if !r.complete || len(changes) > 0 {
		h.Health, h.HealthReset = &changes, !r.complete
	}
	if !r.complete || now.Sub(r.countersSent) >= countersInterval {
		h.Counters = &current.counters
	}
	announced := r.speaker.said()
	announced = announced[:min(len(announced), cloudv1.MaxAnnounced)]
	// The former heartbeat may have gone to a server of a version that ignores it.
	if h.Counters != nil || !slices.Equal(announced, r.announced) {
		h.Announced = &announced
	}
	limited, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	reply, err := r.Cloud.Heartbeat(limited, r.id, h)
	if cloudapi.IsAbsent(err) || cloudapi.HasCode(err, cloudv1.CodeUnauthenticated) {
		// The edge was deleted, and its token with it, or another machine has taken its name meanwhile: it registers again.
		r.id = ""
	}
	if err != nil {
		return fmt.Errorf("send a heartbeat: %w", err)
	}
	r.hear()
	if h.Counters != nil {
		r.countersSent = now
	}
	r.announced = announced
	r.health.received(changes)
	r.complete = reply.Complete
	if reply.IntervalMS > 0 {
		r.interval = time.Duration(reply.IntervalMS) * time.Millisecond
	}
	if more || !r.complete && (h.Health == nil || h.Counters == nil) {
		signal(r.beat)
	}
	return nil
}
