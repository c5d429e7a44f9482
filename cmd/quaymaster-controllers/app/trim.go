package app

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
)

// trimCaches makes the caches that all controllers share leave out what none of them reads: in a large cluster, that is
// most of their memory. The API server keeps both parts: an update without managed fields does not change them, and
// images are part of the status, which is only patched.
func trimCaches(shared informers.SharedInformerFactory) error {
	core := shared.Core().V1()
	for _, informer := range []cache.SharedIndexInformer{
		core.Nodes().Informer(), core.Services().Informer(), core.PersistentVolumes().Informer(),
	} {
		if err := informer.SetTransform(trim); err != nil {
			return fmt.Errorf("trim the caches: %w", err)
		}
	}
	return nil
}

func trim(obj any) (any, error) {
	if node, ok := obj.(*corev1.Node); ok {
		node.Status.Images = nil
	}
	return ctrlcache.TransformStripManagedFields()(obj)
}
