package policystore

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"quaymaster.dev/internal/policy"
)

// put adds or replaces an object.
func (s *Store) put(kind string, obj metav1.Object) {
	if kind == kindNamespace {
		s.mu.Lock()
		before, known := s.namespaces[obj.GetName()]
		s.namespaces[obj.GetName()] = obj.GetLabels()
		s.mu.Unlock()
		if !known || !maps.Equal(before, obj.GetLabels()) {
			s.notify(func(to Subscriber) { to.NamespaceChanged(obj.GetName()) })
		}
		return
	}
	s.putPolicy(policy.Key{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}, obj, false)
}

// putPolicy adds or replaces a policy. With refill, it only replaces one that has not changed meanwhile.
func (s *Store) putPolicy(key policy.Key, obj metav1.Object, refill bool) {
	known, _ := s.Entry(key)
	entry, ok := s.newEntry(obj, known)
	if !ok {
		return
	}
	s.mu.Lock()
	before := s.entries[key]
	skip := refill && (before == nil || before != known)
	if !skip {
		s.entries[key] = entry
		if before == nil || before.Policy != entry.Policy {
			s.regroup(key.Namespace, before, entry)
		}
	}
	s.mu.Unlock()
	if !skip {
		s.notify(func(to Subscriber) { to.PolicyChanged(key) })
	}
}

// remove removes a deleted object.
func (s *Store) remove(kind string, name cache.ObjectName) {
	key := policy.Key{Kind: kind, Namespace: name.Namespace, Name: name.Name}
	s.mu.Lock()
	if kind == kindNamespace {
		delete(s.namespaces, name.Name)
	} else if before := s.entries[key]; before != nil {
		delete(s.entries, key)
		s.regroup(key.Namespace, before, nil)
	}
	s.mu.Unlock()
	s.notify(func(to Subscriber) {
		if kind == kindNamespace {
			to.NamespaceChanged(name.Name)
		} else {
			to.PolicyChanged(key)
		}
	})
}

// names returns the names of the objects of a kind.
func (s *Store) names(kind string) map[cache.ObjectName]bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	names := map[cache.ObjectName]bool{}
	if kind == kindNamespace {
		for name := range s.namespaces {
			names[cache.ObjectName{Name: name}] = true
		}
	}
	for key := range s.entries {
		if key.Kind == kind {
			names[cache.ObjectName{Namespace: key.Namespace, Name: key.Name}] = true
		}
	}
	return names
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
			signal(s.lacking)
		}
	}
}

// refill reads the specs of policies that were dropped and apply now.
func (s *Store) refill(ctx context.Context) error {
	s.mu.RLock()
	var lacking []policy.Key
	for namespace, group := range s.groups {
		for i, p := range policy.Limit(group) {
			if namespace != "" && p == group[i] && !p.Held() {
				lacking = append(lacking, p.Key())
			}
		}
	}
	s.mu.RUnlock()
	for _, key := range lacking {
		found, err := s.api.List(ctx, key.Kind, metav1.ListOptions{
			FieldSelector: "metadata.namespace=" + key.Namespace + ",metadata.name=" + key.Name,
		})
		if err != nil {
			return err
		}
		err = meta.EachListItem(found, func(obj runtime.Object) error {
			o, err := meta.Accessor(obj)
			if err == nil && o.GetNamespace() == key.Namespace && o.GetName() == key.Name {
				s.putPolicy(key, o, true)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// removeAll removes all policies, because none exist without their CRDs.
func (s *Store) removeAll() {
	for _, kind := range kinds {
		for name := range s.names(kind) {
			s.remove(kind, name)
		}
	}
}

func (s *Store) notify(tell func(Subscriber)) {
	s.mu.RLock()
	subscribers := slices.Clone(s.subscribers)
	s.mu.RUnlock()
	for _, subscriber := range subscribers {
		tell(subscriber)
	}
}

func (s *Store) setSynced(synced bool, kinds ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range kinds {
		s.synced[kind] = synced
	}
}

// signal sends to a channel that holds one item, unless it is full.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
