package certs

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// maxSteps is the number of steps that may follow each other immediately; further ones are retryEvery apart.
	maxSteps = 5
	// retryEvery is the interval for retrying while there is a problem.
	retryEvery = 5 * time.Second
	// callTimeout bounds reading and writing objects in a step.
	callTimeout = 10 * time.Second
)

var secretsResource = corev1.SchemeGroupVersion.WithResource("secrets")

// typed returns an object, or the parts of it that T has, as a T.
func typed[T any](object *unstructured.Unstructured) (*T, error) {
	converted := new(T)
	return converted, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, converted)
}

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

// watch reports changes of an object, and failures to read it, until the context ends.
func (s signal) watch(ctx context.Context, api dynamic.ResourceInterface, name string) {
	watchNamed(ctx, api, name, func(*unstructured.Unstructured, error) { s.notify() })
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

// observer is called with the current object, nil if it does not exist, or with the error if it cannot be read.
type observer func(*unstructured.Unstructured, error)

// watchNamed watches one object, because the role's rights are limited to names, until the context ends.
func watchNamed(ctx context.Context, api dynamic.ResourceInterface, name string, observe observer) {
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	check := func(err error) {
		if err != nil && ctx.Err() == nil {
			observe(nil, fmt.Errorf("watch: %w", err))
		}
	}
	lister := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			list, err := api.List(ctx, o)
			check(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			watching, err := api.Watch(ctx, o)
			check(err)
			return watching, err
		},
	}
	logger := klog.FromContext(ctx)
	cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lister, api), nil, observe,
		cache.ReflectorOptions{Logger: &logger, Name: name}).RunWithContext(ctx)
}

var _ cache.ReflectorStore = observer(nil)

// Add implements cache.ReflectorStore, as do the following methods.
func (o observer) Add(found any) error { return o.Update(found) }

// Update reports the changed object.
func (o observer) Update(found any) error {
	object, _ := found.(*unstructured.Unstructured)
	o(object, nil)
	return nil
}

// Delete reports that the object was deleted.
func (o observer) Delete(any) error { return o.Update(nil) }

// Replace reports the object at the start of a watch.
func (o observer) Replace(found []any, _ string) error {
	if len(found) == 0 {
		return o.Update(nil)
	}
	return o.Update(found[0])
}

// Resync does nothing.
func (o observer) Resync() error { return nil }
