package certs

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// maxSteps is the number of steps that may follow each other immediately; further ones are retryEvery apart.
	maxSteps = 5
	// retryEvery is the interval for retrying while there is a problem.
	retryEvery = 5 * time.Second
)

// signal reports changes to a loop.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

// notify reports a change. It never waits: the next step sees all changes until then.
func (s signal) notify() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// repeat takes a step after each change, and after the time that the last step returned, until the context ends. Steps
// cause changes themselves, so they must be rare if something else keeps changing what they write.
func repeat(ctx context.Context, clock clock.Clock, changed signal, step func() time.Duration) {
	steps := rate.NewLimiter(rate.Every(retryEvery), maxSteps)
	for steps.Wait(ctx) == nil {
		pause := step()
		select {
		case <-ctx.Done():
		case <-changed:
		case <-clock.After(pause):
		}
	}
}

// watcher is the part of a typed client that lists and watches; L is its type of lists.
type watcher[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// named watches one object, which T points to. The role's rights are limited to the names of its objects.
type named[T metav1.Object] struct {
	name string
	// changed is called with the current object; nil if it does not exist.
	changed func(T)
	// failed is called with the error if the object cannot be read.
	failed func(error)
}

var _ cache.ReflectorStore = named[metav1.Object]{}

// watchNamed watches the object until the context ends.
func watchNamed[T metav1.Object, L runtime.Object](ctx context.Context, api watcher[L], w named[T]) {
	only := func(o metav1.ListOptions) metav1.ListOptions {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, w.name).String()
		return o
	}
	check := func(err error) {
		if err != nil && ctx.Err() == nil {
			w.failed(fmt.Errorf("watch: %w", err))
		}
	}
	lister := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := api.List(ctx, only(o))
			check(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			watching, err := api.Watch(ctx, only(o))
			check(err)
			return watching, err
		},
	}
	logger := klog.FromContext(ctx)
	cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lister, api), nil, w,
		cache.ReflectorOptions{Logger: &logger, Name: w.name}).RunWithContext(ctx)
}

// Add implements cache.ReflectorStore, as do the following methods.
func (w named[T]) Add(found any) error { return w.Update(found) }

// Update reports the changed object. API servers do not send others.
func (w named[T]) Update(found any) error {
	if object, ok := found.(T); ok && object.GetName() == w.name {
		w.changed(object)
	}
	return nil
}

// Delete reports that the object was deleted.
func (w named[T]) Delete(found any) error {
	if object, ok := found.(T); ok && object.GetName() == w.name {
		w.changed(*new(T))
	}
	return nil
}

// Replace reports the object at the start of a watch.
func (w named[T]) Replace(found []any, _ string) error {
	var current T
	for _, candidate := range found {
		if object, ok := candidate.(T); ok && object.GetName() == w.name {
			current = object
		}
	}
	w.changed(current)
	return nil
}

// Resync does nothing.
func (w named[T]) Resync() error { return nil }
