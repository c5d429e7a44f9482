package policystore

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// sink passes the objects of a kind from a Reflector to the Store as they arrive, so that the Store decides what to keep
// of each: a user may have created more than fits into the memory at a time. kind is that of policies or namespaces.
type sink struct {
	*Store
	kind   string
	logger klog.Logger
	// known are the objects that the Store has of the kind.
	known sets.Set[cache.ObjectName]
}

var _ cache.TransformingStore = sink{}

func (s *Store) sink(ctx context.Context, kind string) sink {
	return sink{s, kind, klog.FromContext(ctx), sets.New[cache.ObjectName]()}
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
	k.put(k.kind, o)
	k.known.Insert(cache.MetaObjectToName(o))
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), ResourceVersion: o.GetResourceVersion(),
	}}, nil
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
		k.remove(k.kind, name)
		k.known.Delete(name)
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
		gone.Delete(name)
	}
	k.retire(gone)
	k.setRead(k.logger, k.kind, true)
	return nil
}

// absent removes all objects, because there are none without their CRD.
func (k sink) absent() {
	k.retire(k.known.Clone())
	k.setRead(k.logger, k.kind, false)
}

func (k sink) retire(gone sets.Set[cache.ObjectName]) {
	for name := range gone {
		k.remove(k.kind, name)
		k.known.Delete(name)
	}
}

// Resync implements cache.ReflectorStore.
func (k sink) Resync() error { return nil }
