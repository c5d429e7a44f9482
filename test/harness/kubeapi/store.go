// Package kubeapi is an API server in memory, for tests in which time is virtual or in which very many clusters are
// needed. It has what controllers depend on: resource versions, preconditions, finalizers, subresources, all kinds of
// patches including server-side apply, selectors and watches. It has no defaulting, validation, admission or
// authorization; for those, tests use a real API server through test/harness/env.
package kubeapi

import (
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/watch"
	applyconfigurations "k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
)

// object is what the store holds.
type object interface {
	runtime.Object
	metav1.Object
}

// target names an object, or a collection if it has no name.
type target struct {
	gvr                          schema.GroupVersionResource
	namespace, name, subresource string
}

func (t target) key() string { return t.gvr.Resource + "/" + t.namespace + "/" + t.name }

func (t target) resource() schema.GroupResource { return t.gvr.GroupResource() }

// event is a change of an object.
type event struct {
	version int64
	kind    watch.EventType
	object  object
	// resource is that of the object.
	resource string
}

// store holds objects and the history of their changes.
type store struct {
	mapper meta.RESTMapper
	fields managedfields.TypeConverter

	mu      sync.Mutex
	version int64
	objects map[string]object
	history []event
	// lost is the version before which the history is unknown.
	lost int64
	// changed is closed and replaced with every change.
	changed chan struct{}
	// observe, if not nil, sees every change; nil stands for an object that does not exist.
	observe func(before, after runtime.Object)
}

// kinds and types describe the built-in kinds. They are expensive to make and never change.
var (
	kinds = sync.OnceValue(func() meta.RESTMapper { return testrestmapper.TestOnlyStaticRESTMapper(scheme.Scheme) })
	typed = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(scheme.Scheme) })
)

func newStore() *store {
	return &store{mapper: kinds(), fields: typed(), objects: map[string]object{}, changed: make(chan struct{})}
}

// empty returns an empty object of the target's kind.
func (s *store) empty(t target) (object, schema.GroupVersionKind, error) {
	kind, err := s.mapper.KindFor(t.gvr)
	if err != nil {
		return nil, kind, apierrors.NewGenericServerResponse(404, "get", t.resource(), t.name, err.Error(), 0, true)
	}
	o, err := scheme.Scheme.New(kind)
	if err != nil {
		return nil, kind, fmt.Errorf("create a %s: %w", kind, err)
	}
	o.GetObjectKind().SetGroupVersionKind(kind)
	return o.(object), kind, nil
}

func (s *store) get(t target) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read(t)
}

func (s *store) read(t target) (object, error) {
	o := s.objects[t.key()]
	if o == nil {
		return nil, apierrors.NewNotFound(t.resource(), t.name)
	}
	return copied(o), nil
}

// list returns the objects of a collection and the version of the list.
func (s *store) list(t target) ([]object, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []object
	for key, o := range s.objects {
		if strings.HasPrefix(key, t.gvr.Resource+"/") && (t.namespace == "" || o.GetNamespace() == t.namespace) {
			found = append(found, copied(o))
		}
	}
	return found, strconv.FormatInt(s.version, 10)
}

// since returns the events after a version and a channel that the next one closes. The error is Expired if they are not
// all known.
func (s *store) since(version int64, t target) ([]event, chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version < s.lost {
		return nil, nil, apierrors.NewResourceExpired(fmt.Sprintf("version %d is too old: %d", version, s.lost))
	}
	var found []event
	for i := len(s.history) - 1; i >= 0 && s.history[i].version > version; i-- {
		if e := s.history[i]; e.resource == t.gvr.Resource && (t.namespace == "" || e.object.GetNamespace() == t.namespace) {
			found = append(found, e)
		}
	}
	for i, j := 0, len(found)-1; i < j; i, j = i+1, j-1 {
		found[i], found[j] = found[j], found[i]
	}
	return found, s.changed, nil
}

// backup returns the objects, which are never changed in place.
func (s *store) backup() map[string]object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.objects)
}

// restored is by how much a restore raises the version, as etcdutl --bump-revision does.
const restored = 1_000_000

func (s *store) restore(objects map[string]object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version += restored
	s.objects, s.history, s.lost = maps.Clone(objects), nil, s.version
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *store) create(t target, o object) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.GetName() == "" && o.GetGenerateName() != "" {
		o.SetName(o.GetGenerateName() + uuid.NewString()[:8])
	}
	o.SetNamespace(t.namespace)
	t.name = o.GetName()
	if s.objects[t.key()] != nil {
		return nil, apierrors.NewAlreadyExists(t.resource(), t.name)
	}
	if o.GetUID() == "" {
		o.SetUID(types.UID(uuid.NewString()))
	}
	o.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	o.SetGeneration(1)
	s.put(t, o, watch.Added)
	return copied(o), nil
}

// change replaces an object by what modify makes of it. Preconditions are a UID and a resource version in the result
// of modify that differ from those of the object.
func (s *store) change(t target, modify func(live object) (object, error)) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	live, err := s.read(t)
	if err != nil {
		return nil, err
	}
	next, err := modify(copied(live))
	if err != nil {
		return nil, err
	}
	if v := next.GetResourceVersion(); v != "" && v != live.GetResourceVersion() {
		return nil, apierrors.NewConflict(t.resource(), t.name, fmt.Errorf("the object has been modified"))
	}
	if uid := next.GetUID(); uid != "" && uid != live.GetUID() {
		return nil, apierrors.NewConflict(t.resource(), t.name, fmt.Errorf("the UID %s is not %s", uid, live.GetUID()))
	}
	next = merge(live, next, t.subresource)
	if same(live, next) {
		return live, nil
	}
	if next.GetDeletionTimestamp() != nil && len(next.GetFinalizers()) == 0 {
		s.remove(t, next)
		return copied(next), nil
	}
	s.put(t, next, watch.Modified)
	return copied(next), nil
}

// delete deletes an object, or marks it as being deleted if it has finalizers.
func (s *store) delete(t target, o metav1.DeleteOptions) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	live, err := s.read(t)
	if err != nil {
		return nil, err
	}
	if p := o.Preconditions; p != nil {
		if p.UID != nil && *p.UID != live.GetUID() ||
			p.ResourceVersion != nil && *p.ResourceVersion != live.GetResourceVersion() {
			return nil, apierrors.NewConflict(t.resource(), t.name, fmt.Errorf("a precondition failed"))
		}
	}
	if len(live.GetFinalizers()) == 0 {
		s.remove(t, live)
		return live, nil
	}
	if live.GetDeletionTimestamp() == nil {
		now := metav1.NewTime(time.Now().Truncate(time.Second))
		live.SetDeletionTimestamp(&now)
		s.put(t, live, watch.Modified)
	}
	return copied(live), nil
}

// put stores an object with a new version. The caller holds the lock.
func (s *store) put(t target, o object, kind watch.EventType) {
	s.version++
	o.SetResourceVersion(strconv.FormatInt(s.version, 10))
	before := s.objects[t.key()]
	s.objects[t.key()] = o
	s.record(t, o, kind)
	switch {
	case s.observe == nil:
	case before == nil:
		s.observe(nil, copied(o))
	default:
		s.observe(before, copied(o))
	}
}

func (s *store) remove(t target, o object) {
	s.version++
	o.SetResourceVersion(strconv.FormatInt(s.version, 10))
	delete(s.objects, t.key())
	s.record(t, o, watch.Deleted)
	if s.observe != nil {
		s.observe(o, nil)
	}
}

func (s *store) record(t target, o object, kind watch.EventType) {
	s.history = append(s.history, event{version: s.version, kind: kind, object: copied(o), resource: t.gvr.Resource})
	close(s.changed)
	s.changed = make(chan struct{})
}

// merge returns what an update makes of the live object: a write of the status changes the status and the metadata, any
// other write everything else. Some metadata never change.
func merge(live, next object, subresource string) object {
	next.SetUID(live.GetUID())
	next.SetCreationTimestamp(live.GetCreationTimestamp())
	next.SetDeletionTimestamp(live.GetDeletionTimestamp())
	next.SetGeneration(live.GetGeneration())
	next.SetNamespace(live.GetNamespace())
	kept := "Status"
	if subresource == "status" {
		kept = "Spec"
	}
	was, is := reflect.ValueOf(live).Elem().FieldByName(kept), reflect.ValueOf(next).Elem().FieldByName(kept)
	if is.IsValid() {
		is.Set(was)
	}
	if spec := reflect.ValueOf(next).Elem().FieldByName("Spec"); spec.IsValid() &&
		!reflect.DeepEqual(spec.Interface(), reflect.ValueOf(live).Elem().FieldByName("Spec").Interface()) {
		next.SetGeneration(live.GetGeneration() + 1)
	}
	return next
}

func same(a, b object) bool {
	x, y := copied(a), copied(b)
	for _, o := range []object{x, y} {
		o.SetResourceVersion("")
		o.SetManagedFields(nil)
	}
	return reflect.DeepEqual(x, y)
}

func copied(o object) object { return o.DeepCopyObject().(object) }
