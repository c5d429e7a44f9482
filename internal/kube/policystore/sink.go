package policystore

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/rules/policy"
)

// sink passes the objects of a kind from a Reflector to the Store as they arrive, so that the Store decides what to keep
// of each: a user may have created more than fits into the memory at a time. kind is that of policies or namespaces.
type sink struct {
	*Store
	kind   string
	logger klog.Logger
	// known are the objects that the Store has of the kind.
	known sets.Set[policy.Key]
}

var _ cache.TransformingStore = sink{}

func (s *Store) sink(ctx context.Context, kind string) sink {
	return sink{s, kind, klog.FromContext(ctx), sets.New[policy.Key]()}
}

// Transformer implements cache.TransformingStore, for the objects of a list that is streamed.
func (k sink) Transformer() cache.TransformFunc { return k.take }

// take passes an object on, and returns what a Reflector has to know of it.
func (k sink) take(obj any) (any, error) {
	if taken, ok := obj.(*metav1.PartialObjectMetadata); ok {
		return taken, nil
	}
	o, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	key := k.key(cache.MetaObjectToName(o))
	k.put(key, o)
	k.known.Insert(key)
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), ResourceVersion: o.GetResourceVersion(),
	}}, nil
}

func (k sink) key(name cache.ObjectName) policy.Key {
	return policy.Key{Kind: k.kind, Namespace: name.Namespace, Name: name.Name}
}

// page lists a page of policies, and returns what a Reflector has to know of it.
func (k sink) page(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	options.ResourceVersion, options.ResourceVersionMatch = "", "" // with one, the API server ignores the limit
	listed, err := k.api.List(ctx, k.kind, options)
	if err != nil {
		return nil, err
	}
	read, err := meta.ListAccessor(listed)
	if err != nil {
		return nil, err
	}
	page := &metav1.PartialObjectMetadataList{
		ListMeta: metav1.ListMeta{ResourceVersion: read.GetResourceVersion(), Continue: read.GetContinue()},
	}
	return page, meta.EachListItem(listed, func(obj runtime.Object) error {
		taken, err := k.take(obj)
		if one, ok := taken.(*metav1.PartialObjectMetadata); ok {
			page.Items = append(page.Items, *one)
		}
		return err
	})
}

// Add implements cache.ReflectorStore.
func (k sink) Add(obj any) error {
	_, err := k.take(obj)
	return err
}

// Update implements cache.ReflectorStore.
func (k sink) Update(obj any) error { return k.Add(obj) }

// Delete implements cache.ReflectorStore.
func (k sink) Delete(obj any) error {
	name, err := cache.ObjectToName(obj)
	if err == nil {
		k.removeAll(sets.New(k.key(name)))
	}
	return err
}

// Replace implements cache.ReflectorStore.
func (k sink) Replace(list []any, _ string) error {
	gone := k.known.Clone()
	for _, obj := range list {
		if err := k.Add(obj); err != nil {
			return err
		}
		name, err := cache.ObjectToName(obj)
		if err != nil {
			return err
		}
		gone.Delete(k.key(name))
	}
	k.removeAll(gone)
	k.setRead(k.logger, k.kind, true)
	return nil
}

func (k sink) removeAll(gone sets.Set[policy.Key]) {
	for key := range gone {
		k.remove(key)
		k.known.Delete(key)
	}
}

// Resync implements cache.ReflectorStore.
func (k sink) Resync() error { return nil }
