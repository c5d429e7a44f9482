package policystore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"quaymaster.dev/internal/policy"
)

// informer returns an informer that notifies handler of objects. client is the client behind the ListWatch, which may
// declare that it does not support streamed lists.
func (s *Store) informer(
	what string, example runtime.Object, lw *cache.ListWatch, client any, handler cache.ResourceEventHandler,
) (
	informer cache.SharedIndexInformer, handled cache.ResourceEventHandlerRegistration, err error,
) {
	watcher := cache.ToListWatcherWithWatchListSemantics(s.reported(what, lw), client)
	informer = cache.NewSharedIndexInformerWithOptions(watcher, example,
		cache.SharedIndexInformerOptions{ObjectDescription: what})
	// The calls report their outcome themselves.
	quiet := func(context.Context, *cache.Reflector, error) {}
	if err = errors.Join(informer.SetTransform(trim), informer.SetWatchErrorHandlerWithContext(quiet)); err == nil {
		handled, err = informer.AddEventHandler(handler)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("watch %s: %w", what, err)
	}
	return informer, handled, nil
}

// trim drops what is not needed: managed fields, and everything of a namespace except its labels.
func trim(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.Namespace:
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Labels: o.Labels,
		}}, nil
	case metav1.Object:
		o.SetManagedFields(nil)
	}
	return obj, nil
}

func (s *Store) namespaceChanged(obj any) {
	name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		utilruntime.HandleError(err)
		return
	}
	for _, subscriber := range s.currentSubscribers() {
		subscriber.NamespaceChanged(name)
	}
}

// put adds or replaces a policy.
func (s *Store) put(obj any) {
	key, ok := keyOf(obj)
	if !ok {
		return
	}
	before, _ := s.Entry(key)
	entry, err := newEntry(obj, before)
	if err != nil {
		utilruntime.HandleError(err)
		return
	}
	s.mu.Lock()
	s.entries[key] = entry
	if before == nil || before.Policy != entry.Policy {
		// The status, which the controllers write often, is not in the snapshot.
		s.compiled.Store(nil)
	}
	s.mu.Unlock()
	s.policyChanged(key)
}

// remove removes a deleted policy.
func (s *Store) remove(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	key, ok := keyOf(obj)
	if !ok {
		return
	}
	s.mu.Lock()
	delete(s.entries, key)
	s.compiled.Store(nil)
	s.mu.Unlock()
	s.policyChanged(key)
}

// removeAll removes all policies, because none exist without their CRDs.
func (s *Store) removeAll() {
	s.mu.Lock()
	entries := s.entries
	s.entries = map[policy.Key]*Entry{}
	s.compiled.Store(nil)
	s.mu.Unlock()
	for key := range entries {
		s.policyChanged(key)
	}
}

func (s *Store) policyChanged(key policy.Key) {
	for _, subscriber := range s.currentSubscribers() {
		subscriber.PolicyChanged(key)
	}
}

func (s *Store) currentSubscribers() []Subscriber {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.subscribers)
}
