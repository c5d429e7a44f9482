package agent

import (
	"context"
	"sync"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// Enroll returns the cloud of an edge that registers with one token, and does everything else with its own, which the
// cloud accepts once the edge has registered.
func Enroll(own, registration Cloud) Cloud {
	tried := make(chan struct{})
	return &enrolled{Cloud: own, registration: registration, tried: tried, note: sync.OnceFunc(func() { close(tried) })}
}

type enrolled struct {
	Cloud
	registration Cloud
	// tried is closed by note after the first registration, whether it succeeded or not.
	tried chan struct{}
	note  func()
}

// RegisterEdge implements Cloud.
func (e *enrolled) RegisterEdge(ctx context.Context, s cloudv1.EdgeSpec, o cloudapi.WriteOptions) (*cloudv1.Edge, error) {
	defer e.note()
	return e.registration.RegisterEdge(ctx, s, o)
}

// Meta implements state.Cloud. Before a registration was tried, the answer would be that the token is unknown.
func (e *enrolled) Meta(ctx context.Context) (*cloudv1.Meta, error) {
	e.wait(ctx)
	return e.Cloud.Meta(ctx)
}

// Changes implements state.Cloud.
func (e *enrolled) Changes(ctx context.Context, since string, kinds []string, hold time.Duration) (*cloudv1.Changes, error) {
	e.wait(ctx)
	return e.Cloud.Changes(ctx, since, kinds, hold)
}

func (e *enrolled) wait(ctx context.Context) {
	select {
	case <-e.tried:
	case <-ctx.Done():
	}
}
