package mirror

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// Store holds the objects of one kind. The objects that it returns are shared and must not be modified.
type Store[T any] struct {
	kind string
	meta func(*T) *cloudv1.Object
	// list reads all objects that the store holds.
	list func(ctx context.Context, ifNoneMatch string) (*cloudv1.List[T], error)
	// decode decodes the object of a change.
	decode func([]byte) (*T, error)
	// holds reports whether the store holds the object.
	holds func(*T) bool
	// index returns the key by which Find returns the object.
	index func(*T) string
	// within reports whether what was read for a context is of the present state of the cloud. It is called with the lock
	// held: once it is false, doubt is called before the cloud is asked again.
	within func(context.Context) bool

	mu       sync.RWMutex
	synced   bool
	revision string
	items    map[string]*T
	byKey    map[string]map[string]bool
	// doubted has the ids of objects whose revisions may be those of a state that the cloud has lost, so that they do not
	// compare with revisions that are read.
	doubted  map[string]bool
	handlers []func(before, after *T)
}

func newStore[T any](s *Store[T]) *Store[T] {
	s.items, s.byKey, s.doubted = map[string]*T{}, map[string]map[string]bool{}, map[string]bool{}
	return s
}

func (s *Store[T]) name() string { return s.kind }

// OnChange calls f after every change, with the object before and after it; nil stands for an object that is not in the
// store. It must be called before Mirror.Run. f is called by one goroutine at a time and must not block.
func (s *Store[T]) OnChange(f func(before, after *T)) { s.handlers = append(s.handlers, f) }

// Synced reports whether the objects have been read, and the cloud has not lost them since.
func (s *Store[T]) Synced() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.synced
}

// Get returns the object with the id, or nil.
func (s *Store[T]) Get(id string) *T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.items[id]
}

// Find returns the objects with the key of the index, in the order of their ids.
func (s *Store[T]) Find(key string) []*T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var found []*T
	for id := range s.byKey[key] {
		found = append(found, s.items[id])
	}
	s.sort(found)
	return found
}

// List returns all objects, in the order of their ids.
func (s *Store[T]) List() []*T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*T, 0, len(s.items))
	for _, v := range s.items {
		all = append(all, v)
	}
	s.sort(all)
	return all
}

// Len returns the number of objects.
func (s *Store[T]) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.items)
}

// Put stores the response of a call, unless the store has that revision or a later one. An object of the same revision
// may be newer than the response: its observed state changes without a new revision. ctx is that of the call.
func (s *Store[T]) Put(ctx context.Context, v *T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.within(ctx) {
		return
	}
	id := s.meta(v).ID
	if old := s.items[id]; old != nil && !s.doubted[id] && !newer(s.meta(v).Revision, s.meta(old).Revision) {
		return
	}
	if s.holds(v) {
		s.set(v)
	}
}

// Drop removes an object that a read by id has found to be absent. ctx is that of the read.
func (s *Store[T]) Drop(ctx context.Context, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.within(ctx) {
		s.unset(id)
	}
}

func (s *Store[T]) sort(list []*T) {
	slices.SortFunc(list, func(a, b *T) int { return strings.Compare(s.meta(a).ID, s.meta(b).ID) })
}

// doubt lets what is read next replace all objects, whatever their revisions: the cloud may have been restored from a
// backup, and count the same numbers again.
func (s *Store[T]) doubt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced, s.revision = false, ""
	for id := range s.items {
		s.doubted[id] = true
	}
}

// outdates reports whether an object of the store is not newer than a revision that was read.
func (s *Store[T]) outdates(revision string, v *T) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.doubted[s.meta(v).ID] || !newer(s.meta(v).Revision, revision)
}

// read replaces the contents by those of the cloud, unless they are still current.
func (s *Store[T]) read(ctx context.Context) error {
	s.mu.RLock()
	known := s.revision
	s.mu.RUnlock()
	return s.readUnless(ctx, known)
}

// readUnless replaces the contents by those of the cloud, unless it is still at the revision.
func (s *Store[T]) readUnless(ctx context.Context, known string) error {
	list, err := s.list(ctx, known)
	if errors.Is(err, cloudapi.ErrNotModified) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %ss: %w", s.kind, err)
	}
	listed := make(map[string]bool, len(list.Items))
	for i := range list.Items {
		listed[s.meta(&list.Items[i]).ID] = true
		s.apply(ctx, &list.Items[i])
	}
	for _, v := range s.List() {
		// An object that was created after the list was read is not in it.
		if id := s.meta(v).ID; !listed[id] && s.outdates(list.Revision, v) {
			s.remove(ctx, id)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.within(ctx) {
		return fmt.Errorf("list %ss: %w", s.kind, cloudapi.ErrOtherState)
	}
	s.synced, s.revision = true, list.Revision
	return nil
}

// change applies a change of the feed.
func (s *Store[T]) change(ctx context.Context, c cloudv1.Change) error {
	if c.Op == cloudv1.ChangeDelete {
		if old := s.Get(c.ID); old != nil && s.outdates(c.Revision, old) {
			s.remove(ctx, c.ID)
		}
		return nil
	}
	v, err := s.decode(c.Object)
	if err != nil {
		return fmt.Errorf("decode the change of %s %s: %w", c.Kind, c.ID, err)
	}
	if s.meta(v).ID != c.ID {
		return fmt.Errorf("the change of %s %s has the object %q", c.Kind, c.ID, s.meta(v).ID)
	}
	s.apply(ctx, v)
	return nil
}

// apply stores an object that was read from the cloud, unless a later revision is already stored.
func (s *Store[T]) apply(ctx context.Context, v *T) {
	id := s.meta(v).ID
	if !s.holds(v) {
		s.remove(ctx, id)
		return
	}
	s.mu.Lock()
	if !s.within(ctx) {
		s.mu.Unlock()
		return
	}
	before := s.items[id]
	if before != nil {
		outdated := !s.doubted[id] && newer(s.meta(before).Revision, s.meta(v).Revision)
		delete(s.doubted, id)
		if outdated || reflect.DeepEqual(before, v) {
			s.mu.Unlock()
			return
		}
	}
	s.set(v)
	s.mu.Unlock()
	s.notify(before, v)
}

func (s *Store[T]) remove(ctx context.Context, id string) {
	s.mu.Lock()
	before := s.items[id]
	if before == nil || !s.within(ctx) {
		s.mu.Unlock()
		return
	}
	s.unset(id)
	s.mu.Unlock()
	s.notify(before, nil)
}

func (s *Store[T]) notify(before, after *T) {
	for _, f := range s.handlers {
		f(before, after)
	}
}

// set stores an object. The caller holds the lock.
func (s *Store[T]) set(v *T) {
	id := s.meta(v).ID
	s.unset(id)
	s.items[id] = v
	key := s.index(v)
	if s.byKey[key] == nil {
		s.byKey[key] = map[string]bool{}
	}
	s.byKey[key][id] = true
}

// unset removes an object. The caller holds the lock.
func (s *Store[T]) unset(id string) {
	delete(s.doubted, id)
	old := s.items[id]
	if old == nil {
		return
	}
	delete(s.items, id)
	key := s.index(old)
	if delete(s.byKey[key], id); len(s.byKey[key]) == 0 {
		delete(s.byKey, key)
	}
}

// newer reports whether revision a is later than b. If they do not compare, every one counts as newer, so that nothing gets
// lost; but none that is empty, because it could not be decoded.
func newer(a, b string) bool {
	later, known := cloudapi.Later(a, b)
	return later || !known && a != b && a != ""
}
