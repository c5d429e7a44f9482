package cloudapi

import (
	"context"
	"sync/atomic"

	"quaymaster.dev/internal/mycloud/cloudapi/pace"
)

// Class is the priority of a call when the budget of requests runs short.
type Class = pace.Class

// The classes, most important first. Without WithClass, writes are of class Write and reads of class Poll.
const (
	// Safety is for reads that prevent harm: whether a machine exists, or whether an object is what a write expects.
	// Part of the budget is reserved for them.
	Safety = pace.Safety
	// Nodes is for the writes that decide which Nodes get traffic: members of node groups, and routes.
	Nodes = pace.Nodes
	// Write is for all other writes.
	Write = pace.Write
	// Poll is for reads that wait for the cloud or serve a user.
	Poll = pace.Poll
	// Drift is for reads that only look for differences and can be repeated later.
	Drift = pace.Drift
)

type (
	classKey struct{}
	workKey  struct{}
)

// WithClass returns a context whose reads are of the class. The class of a write depends on the write alone.
func WithClass(ctx context.Context, c Class) context.Context {
	return context.WithValue(ctx, classKey{}, c)
}

// work is something that is done for a flow, with several calls.
type work struct {
	flow string
	// begun is true after the first call.
	begun atomic.Bool
}

// WithFlow returns a context for one piece of work on behalf of a flow, such as a namespace. Flows share the budget, so
// that none can keep it from the others, however many calls it needs.
func WithFlow(ctx context.Context, flow string) context.Context {
	return context.WithValue(ctx, workKey{}, &work{flow: flow})
}

func (r *request) class(ctx context.Context) Class {
	switch {
	case r.nodes:
		return Nodes
	case r.writes():
		return Write
	}
	if c, ok := ctx.Value(classKey{}).(Class); ok {
		return c
	}
	return Poll
}

// entry describes the request for the Gate. begun must be called when it was let pass.
func (r *request) entry(ctx context.Context) (entry pace.Request, begun func()) {
	entry = pace.Request{Operation: r.operation(), Write: r.writes(), Class: r.class(ctx)}
	w, ok := ctx.Value(workKey{}).(*work)
	if !ok || entry.Class == Safety || entry.Class == Nodes {
		return entry, func() {}
	}
	entry.Flow, entry.Continues = w.flow, w.begun.Load()
	return entry, func() { w.begun.Store(true) }
}
