package certs

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// secretWatch watches one Secret. The role's rights are limited to the name of that Secret.
type secretWatch struct {
	api  typedcorev1.SecretInterface
	name string
	// changed is called with the current Secret; nil if it does not exist.
	changed func(*corev1.Secret)
	// failed is called with the error if the Secret cannot be read.
	failed func(error)
}

var _ cache.ReflectorStore = secretWatch{}

// watchSecret watches the Secret until the context ends.
func watchSecret(ctx context.Context, w secretWatch) {
	only := func(o metav1.ListOptions) metav1.ListOptions {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, w.name).String()
		return o
	}
	lister := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := w.api.List(ctx, only(o))
			w.check(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			watching, err := w.api.Watch(ctx, only(o))
			w.check(ctx, err)
			return watching, err
		},
	}
	logger := klog.FromContext(ctx)
	reflector := cache.NewReflectorWithOptions(
		cache.ToListWatcherWithWatchListSemantics(lister, w.api), &corev1.Secret{}, w,
		cache.ReflectorOptions{Logger: &logger, Name: "certificate"},
	)
	reflector.RunWithContext(ctx)
}

func (w secretWatch) check(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		w.failed(fmt.Errorf("watch: %w", err))
	}
}

// Add implements cache.ReflectorStore, as do the following methods.
func (w secretWatch) Add(found any) error { return w.Update(found) }

// Update reports the changed Secret.
func (w secretWatch) Update(found any) error {
	secret, ok := found.(*corev1.Secret)
	if !ok {
		return fmt.Errorf("unexpected object of type %T, want a Secret", found)
	}
	w.changed(secret)
	return nil
}

// Delete reports that the Secret was deleted.
func (w secretWatch) Delete(any) error {
	w.changed(nil)
	return nil
}

// Replace reports the Secret at the start of a watch.
func (w secretWatch) Replace(found []any, _ string) error {
	if len(found) == 0 {
		w.changed(nil)
		return nil
	}
	return w.Update(found[0])
}

// Resync does nothing.
func (w secretWatch) Resync() error { return nil }
