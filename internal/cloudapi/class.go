package cloudapi

import (
	"context"

	"quaymaster.dev/internal/cloudapi/pace"
)

// Class is the priority of a call when the budget of requests runs short.
type Class = pace.Class

// The classes, most important first. Without WithClass, writes are of class Write and reads of class Poll.
const (
	// Safety is for reads that prevent harm: whether a machine exists, or whether an object is what a write expects.
	// Part of the budget is reserved for them.
	Safety = pace.Safety
	// Write is for writes.
	Write = pace.Write
	// Poll is for reads that wait for the cloud or serve a user.
	Poll = pace.Poll
	// Drift is for reads that only look for differences and can be repeated later.
	Drift = pace.Drift
)

type classKey struct{}

// WithClass returns a context whose reads are of the class. Writes are always of class Write.
func WithClass(ctx context.Context, c Class) context.Context {
	return context.WithValue(ctx, classKey{}, c)
}

func (r *request) class(ctx context.Context) Class {
	if r.writes() {
		return Write
	}
	if c, ok := ctx.Value(classKey{}).(Class); ok {
		return c
	}
	return Poll
}
