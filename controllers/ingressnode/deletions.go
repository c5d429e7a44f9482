package ingressnode

import (
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// deletions remembers the instances of Nodes whose deletion the API server has announced. A Node that is merely missing
// from a list does not count: the list may be wrong or incomplete.
type deletions struct {
	mu   sync.Mutex
	seen map[string]bool
}

// note records a deletion. obj is what an informer passes to its handlers: a Node for an announced deletion, and
// something else for a Node that is missing from a list.
func (d *deletions) note(obj any, instanceID func(string) (string, error)) {
	node, announced := obj.(*corev1.Node)
	if !announced {
		return
	}
	if id, err := instanceID(node.Spec.ProviderID); err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.seen[id] = true
	}
}

// snapshot returns the instances whose Nodes were deleted.
func (d *deletions) snapshot() map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.seen)
}

// settled forgets the instances of a snapshot, which have left their groups.
func (d *deletions) settled(snapshot map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.seen, func(id string, _ bool) bool { return snapshot[id] })
}
