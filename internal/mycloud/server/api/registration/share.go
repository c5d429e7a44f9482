package registration

import (
	"context"
	"encoding/json"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/edges"
	"quaymaster.dev/internal/mycloud/server/store"
)

// The topics of what servers tell each other of an edge.
const (
	beatTopic    = "beats"
	detailsTopic = "details"
)

// tell tells other servers what an edge has reported. It returns false if they do not know the details.
func (a *Edges) tell(ctx context.Context, id string, details bool) bool {
	e := a.known.Get(id)
	if e == nil || !a.shared.Load() {
		return true
	}
	told := true
	messages := map[string]any{beatTopic: e.Beat()}
	if _, missing := a.untold.LoadAndDelete(id); details || missing {
		messages[detailsTopic] = e.Details()
	}
	for topic, m := range messages {
		raw, err := json.Marshal(m)
		if err == nil {
			err = a.read.Store.Tell(ctx, topic, id, raw)
		}
		if err == nil {
			continue
		}
		a.logger.WarnContext(ctx, "Could not tell other servers of an edge", "edge", id, "error", err)
		if topic == detailsTopic {
			a.untold.Store(id, true)
			told = false
		}
	}
	return told
}

// forget deletes what servers have told each other of an edge.
func (a *Edges) forget(ctx context.Context, id string) {
	if !a.shared.Load() {
		return
	}
	for _, topic := range []string{beatTopic, detailsTopic} {
		if err := a.read.Store.Tell(ctx, topic, id, nil); err != nil {
			a.logger.WarnContext(ctx, "Could not delete the messages about an edge", "edge", id, "error", err)
		}
	}
}

// Listen follows what other servers commit and report about edges, and reports to them from then on, until ctx is done.
func (a *Edges) Listen(ctx context.Context) {
	a.shared.Store(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.read.Store.Listen(ctx, []string{beatTopic, detailsTopic}, a.hear)
	}()
	a.follow(ctx)
	<-done
}

// hear stores a message of another server. One from before this server listened says nothing of the state of an edge.
func (a *Edges) hear(topic, id string, message []byte, live bool) {
	var beat edges.Beat
	var details edges.Details
	switch {
	case topic == beatTopic && live && json.Unmarshal(message, &beat) == nil:
		a.known.Hear(id, beat)
	case topic == detailsTopic && json.Unmarshal(message, &details) == nil:
		a.known.Learn(id, details)
	}
}

// follow follows the durable part of edges.
func (a *Edges) follow(ctx context.Context) {
	last := ""
	for {
		changed := a.read.Store.Changed()
		var stored []*cloudv1.Edge
		same := false
		err := a.read.Store.View(func(tx *store.Tx) error {
			same = store.Edges.UnchangedSince(tx, last) && strings.Contains(last, ".")
			last = tx.Revision()
			if same {
				return nil
			}
			return store.Edges.Each(tx, func(e *cloudv1.Edge) error {
				stored = append(stored, e)
				return nil
			})
		})
		if err != nil {
			a.logger.ErrorContext(ctx, "Could not read the edges", "error", err)
		} else if !same {
			a.known.Replace(stored)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}
