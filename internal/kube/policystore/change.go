package policystore

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"quaymaster.dev/internal/rules/policy"
)

// put adds or replaces an object.
func (s *Store) put(key policy.Key, obj metav1.Object) {
	if key.Kind != kindNamespace {
		s.putPolicy(key, obj, false)
		return
	}
	s.mu.Lock()
	before, known := s.namespaces[key.Name]
	s.namespaces[key.Name] = obj.GetLabels()
	s.mu.Unlock()
	if !known || !maps.Equal(before, obj.GetLabels()) {
		s.notify(key)
	}
}

// putPolicy adds or replaces a policy. With refill, it only replaces one that has not changed meanwhile.
func (s *Store) putPolicy(key policy.Key, obj metav1.Object, refill bool) {
	known, _ := s.Entry(key)
	entry := s.newEntry(obj, known)
	s.mu.Lock()
	before := s.entries[key]
	if refill && (before == nil || before != known) {
		s.mu.Unlock()
		return
	}
	s.entries[key] = entry
	if before == nil || before.Policy != entry.Policy {
		s.regroup(key.Namespace, before, entry)
	}
	s.mu.Unlock()
	s.notify(key)
}

// remove removes a deleted object.
func (s *Store) remove(key policy.Key) {
	s.mu.Lock()
	if key.Kind == kindNamespace {
		delete(s.namespaces, key.Name)
	} else if before := s.entries[key]; before != nil {
		delete(s.entries, key)
		s.regroup(key.Namespace, before, nil)
	}
	s.mu.Unlock()
	s.notify(key)
}

// notify tells the subscribers that an object has changed.
func (s *Store) notify(key policy.Key) {
	s.mu.RLock()
	subscribers := slices.Clone(s.subscribers)
	s.mu.RUnlock()
	for _, subscriber := range subscribers {
		if key.Kind == kindNamespace {
			subscriber.NamespaceChanged(key.Name)
		} else {
			subscriber.PolicyChanged(key)
		}
	}
}

// regroup replaces a policy in its group; before and after may be nil. Of a namespace, only the policies that apply keep
// their specs, so that its admin decides about a bounded part of the memory.
func (s *Store) regroup(namespace string, before, after *Entry) {
	group, at := s.groups[namespace], 0
	if before != nil {
		group = slices.DeleteFunc(group, func(p *policy.Policy) bool { return p == before.Policy })
	}
	if after != nil {
		at, _ = slices.BinarySearchFunc(group, after.Policy, policy.LimitOrder)
		group = slices.Insert(group, at, after.Policy)
	}
	if s.groups[namespace] = group; len(group) == 0 {
		delete(s.groups, namespace)
	}
	if namespace == "" {
		return
	}
	applied := policy.Limit(group)
	if at > len(applied) {
		after.Policy.Drop()
	}
	// Those that follow have been dropped before.
	for i, p := range group[:min(len(group), len(applied)+1)] {
		switch applies := i < len(applied) && applied[i] == p; {
		case !applies:
			p.Drop()
		case !p.Held():
			s.lacking.Insert(p.Key())
		}
	}
}

// refill reads the specs of policies that were dropped and apply now.
func (s *Store) refill(ctx context.Context) {
	s.mu.Lock()
	lacking := s.lacking
	s.lacking = sets.New[policy.Key]()
	s.mu.Unlock()
	for key := range lacking {
		found, err := s.api.List(ctx, key.Kind, metav1.ListOptions{
			FieldSelector: "metadata.namespace=" + key.Namespace + ",metadata.name=" + key.Name,
		})
		if err != nil { // the watches report it
			s.mu.Lock()
			s.lacking.Insert(key)
			s.mu.Unlock()
			continue
		}
		_ = meta.EachListItem(found, func(item runtime.Object) error { // it is a list
			if o, err := meta.Accessor(item); err == nil && o.GetNamespace() == key.Namespace && o.GetName() == key.Name {
				s.putPolicy(key, o, true)
			}
			return nil
		})
	}
}
