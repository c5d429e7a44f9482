package loadbalancers

import (
	"sync"

	"quaymaster.dev/internal/mycloud/server/store"
)

// recent remembers what transactions have read of a collection, until the collection changes. The operating state of one
// load balancer depends on as many as a thousand instances.
type recent[T any] struct {
	mu      sync.Mutex
	current *generation[T]
}

// generation is what is known of a collection as of a revision of the cloud.
type generation[T any] struct {
	revision string
	// private is true if only one transaction has it.
	private bool

	mu    sync.Mutex
	items map[string]T
}

// of returns what is known of a collection as the transaction sees it. unchangedSince is that of the collection's kind.
func (r *recent[T]) of(tx *store.Tx, unchangedSince func(*store.Tx, string) bool) *generation[T] {
	fresh := &generation[T]{revision: tx.Revision(), items: map[string]T{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.current != nil && unchangedSince(tx, r.current.revision):
		return r.current
	case tx.Writable():
		// What it reads may be its own writes, which are not committed yet.
		fresh.private = true
		return fresh
	}
	r.current = fresh
	return fresh
}

// get returns an item, which read reads if it is not known.
func (g *generation[T]) get(tx *store.Tx, id string, read func() (T, error)) (T, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if item, ok := g.items[id]; ok {
		return item, nil
	}
	item, err := read()
	if err == nil && (g.private || !tx.Writable()) {
		g.items[id] = item
	}
	return item, err
}
