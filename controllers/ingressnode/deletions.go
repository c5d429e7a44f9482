package ingressnode

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// deletions remembers the instances of Nodes whose deletion the API server has announced. A Node that is merely missing
// from a list does not count: the list may be wrong or incomplete.
type deletions struct {
	mu   sync.Mutex
	seen departures
}

// departures has the groups that instances have yet to leave; nil stands for all.
type departures map[string][]string

// pending reports whether an instance has yet to leave a group.
func (d departures) pending(id, group string) bool {
	groups, seen := d[id]
	return seen && (groups == nil || slices.Contains(groups, group))
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
		d.seen[id] = nil
	}
}

// snapshot returns the instances whose Nodes were deleted.
func (d *deletions) snapshot() departures {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.seen)
}

// settled forgets the instances of a snapshot, which have left all groups but those that failed.
func (d *deletions) settled(snapshot departures, failed []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range snapshot {
		left := slices.DeleteFunc(slices.Clone(failed), func(group string) bool { return !snapshot.pending(id, group) })
		if d.seen[id] = left; len(left) == 0 {
			delete(d.seen, id)
		}
	}
}
