package agent

import (
	"context"
	"fmt"
	"sync"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// Client is a client of the cloud that identifies it: its calls fail unless it is the one that Expect has named.
type Client interface {
	Cloud
	Identity(ctx context.Context) (*cloudv1.Meta, error)
	Expect(id, revision string)
	Expects() bool
	// Elsewhere makes the next call ask another server, if there is one.
	Elsewhere()
}

// Identity makes sure that an edge has to do with one cloud only: the one whose state it has kept, until an administrator
// names another one. A different cloud at the endpoint gets neither a registration nor heartbeats.
type Identity struct {
	confirmed         string
	own, registration Client
	// turn is held while the cloud is being identified.
	turn chan struct{}

	mu sync.Mutex
	// id is that of the cloud, and other that of a different one that has answered instead.
	id, other string
}

// NewIdentity returns an Identity with the id that an administrator has named. It may be empty: then the edge belongs to the
// cloud of its state or, without one, to the first that answers.
func NewIdentity(confirmed string) *Identity {
	return &Identity{confirmed: confirmed, id: confirmed, turn: make(chan struct{}, 1)}
}

// Enroll is Enroll of clients whose Options.Identify is Identify. It must be called before they are used.
func (i *Identity) Enroll(own, registration Client) Cloud {
	i.own, i.registration = own, registration
	return Enroll(own, registration)
}

// Identify finds out which cloud the endpoint leads to, and returns an error unless it is that of the edge.
func (i *Identity) Identify(ctx context.Context) error {
	select {
	case i.turn <- struct{}{}:
		defer func() { <-i.turn }()
	case <-ctx.Done():
		return fmt.Errorf("identify the cloud: %w", ctx.Err())
	}
	if i.own.Expects() && i.registration.Expects() {
		return nil
	}
	meta, err := i.own.Identity(ctx)
	if cloudapi.HasCode(err, cloudv1.CodeUnauthenticated) {
		// The edge has not registered yet, or was deleted.
		meta, err = i.registration.Identity(ctx)
	}
	if err != nil {
		return fmt.Errorf("identify the cloud: %w", err)
	}
	if err := i.check(meta.ID); err != nil {
		i.own.Elsewhere()
		i.registration.Elsewhere()
		return err
	}
	i.own.Expect(meta.ID, meta.Revision)
	i.registration.Expect(meta.ID, meta.Revision)
	return nil
}

// check returns an error unless a cloud is that of the edge.
func (i *Identity) check(id string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.id == "" {
		i.id = id
	}
	if i.other = ""; id == i.id {
		return nil
	}
	i.other = id
	return fmt.Errorf("the endpoint leads to cloud %s instead of %s, with whose state this edge goes on; correct --endpoint or, "+
		"if that cloud has replaced it for good, start the edge with --cloud-id %s", id, i.id, id)
}

// keep notes the cloud of the kept state.
func (i *Identity) keep(id string) {
	if i.confirmed == "" {
		i.id = id
	}
}

// misled reports whether a different cloud has answered last.
func (i *Identity) misled() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.other != ""
}
