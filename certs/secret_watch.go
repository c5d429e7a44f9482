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

// secretWatch tells what becomes of one Secret. Its rights are limited to the Secret's name.
type secretWatch struct {
	api  typedcorev1.SecretInterface
	name string
	// changed gets the Secret as it is now; nil if there is none.
	changed func(*corev1.Secret)
	// failed gets why the Secret cannot be read.
	failed func(error)
}

var _ cache.ReflectorStore = secretWatch{}

// watchSecret watches until the context ends.
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
		cache.ToListWatcherWithWatchListSemantics(lister, w.api), &corev1.Secret{}, w, cache.ReflectorOptions{Logger: &logger, Name: "certificate"},
	)
	reflector.RunWithContext(ctx)
}

func (w secretWatch) check(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		w.failed(fmt.Errorf("watch: %w", err))
	}
}

// Add is for the reflector, as are the rest.
func (w secretWatch) Add(found any) error { return w.Update(found) }

// Update takes what the Secret has become.
func (w secretWatch) Update(found any) error {
	secret, ok := found.(*corev1.Secret)
	if !ok {
		return fmt.Errorf("got a %T, want a Secret", found)
	}
	w.changed(secret)
	return nil
}

// Delete takes that the Secret is gone.
func (w secretWatch) Delete(any) error {
	w.changed(nil)
	return nil
}

// Replace takes the Secret at the start of a watch.
func (w secretWatch) Replace(found []any, _ string) error {
	if len(found) == 0 {
		w.changed(nil)
		return nil
	}
	return w.Update(found[0])
}

// Resync has nothing to do.
func (w secretWatch) Resync() error { return nil }
