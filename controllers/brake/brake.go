// Package brake keeps the brakes of the controllers. A brake stops dangerous work until the danger is over, which the
// controller that engaged it decides, or until an operator resumes the work for a while.
//
// The brakes are stored in a ConfigMap and survive restarts and changes of the leader.
package brake

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quaymaster.dev/internal/kube/brakes"
)

// The reasons of Events about the ConfigMap.
const (
	eventEngaged  = "BrakeEngaged"
	eventReleased = "BrakeReleased"
	eventResumed  = "BrakeResumed"
	eventInvalid  = "InvalidResume"
)

// Options are the dependencies of a Book.
type Options struct {
	// Client reads and writes the ConfigMap.
	Client kubernetes.Interface
	// Namespace is the namespace of the ConfigMap.
	Namespace string
	// Recorder records Events about the ConfigMap.
	Recorder record.EventRecorder
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

// Book is the record of all brakes. Its methods may be called by several goroutines.
type Book struct {
	o Options

	// writing is held during a write, so that writes of this process do not conflict.
	writing sync.Mutex

	mu sync.Mutex
	// known is the last known state of the ConfigMap, which must not be modified; nil if it is unknown or absent.
	known *corev1.ConfigMap
	// unstored has the engagements that could not be stored yet.
	unstored map[string]brakes.Engagement
}

// New creates a Book; Run follows what operators do.
func New(o Options) *Book {
	o.Clock = cmp.Or[clock.PassiveClock](o.Clock, clock.RealClock{})
	return &Book{o: o, unstored: map[string]brakes.Engagement{}}
}

// Run creates the ConfigMap if there is none and follows its changes until ctx ends.
func (b *Book) Run(ctx context.Context) {
	factory := informers.NewSharedInformerFactoryWithOptions(b.o.Client, 0, informers.WithNamespace(b.o.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + brakes.ConfigMap }))
	informer := factory.Core().V1().ConfigMaps().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    b.observe,
		UpdateFunc: func(_, obj any) { b.observe(obj) },
		DeleteFunc: func(any) { b.forget() },
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Could not follow the brakes")
		return
	}
	// It is not waited for at the end: it only reads, and may sleep past the end of its context.
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return
	}
	if _, err := b.read(ctx); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Could not create the record of brakes, will try again when it is needed")
	}
	<-ctx.Done()
}

// HasSynced reports whether the record has been read.
func (b *Book) HasSynced() bool { return b.current() != nil }

// Engaged reports whether the work of a brake must stop, since when and why. It must while the record has not been read
// or is invalid.
func (b *Book) Engaged(name string) (message string, since time.Time, engaged bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		return "the record of brakes has not been read yet", time.Time{}, true
	}
	now := b.o.Clock.Now()
	message, since, engaged = brakes.Engaged(b.known, name, now)
	if engaged || brakes.Resumed(b.known, name, now) {
		return message, since, engaged
	}
	local, engaged := b.unstored[name]
	return local.Message, local.Since, engaged
}

// Engage stops the work of a brake. It takes effect even if it returns an error, which means that a restart would
// release the brake. Repeating it with the same message writes nothing. While an operator has resumed the work, it has
// no effect.
func (b *Book) Engage(ctx context.Context, name, message string) error {
	now := b.o.Clock.Now()
	b.mu.Lock()
	b.unstored[name] = brakes.Engagement{Since: now, Message: message}
	b.mu.Unlock()
	err := b.update(ctx, name, func(cm *corev1.ConfigMap, brake *brakes.Brake) string {
		switch {
		case brakes.Resumed(cm, name, b.o.Clock.Now()):
			return ""
		case brake.Engaged == nil:
			brake.Engaged = &brakes.Engagement{Since: now, Message: message}
		case brake.Engaged.Message != message:
			brake.Engaged.Message = message
		default:
			return ""
		}
		return eventEngaged
	})
	if err != nil {
		return fmt.Errorf("engage brake %s: %w", name, err)
	}
	b.stored(name)
	return nil
}

// Release ends an engagement. It does nothing if the brake is released.
func (b *Book) Release(ctx context.Context, name string) error {
	err := b.update(ctx, name, func(_ *corev1.ConfigMap, brake *brakes.Brake) string {
		if brake.Engaged == nil {
			return ""
		}
		brake.Engaged = nil
		return eventReleased
	})
	if err != nil {
		return fmt.Errorf("release brake %s: %w", name, err)
	}
	b.stored(name)
	return nil
}

// stored forgets an engagement that is stored now, or that ended.
func (b *Book) stored(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.unstored, name)
}

// Spend reports whether the work that the key identifies may be done, and if so, counts it before it returns: within
// any window, work with at most limit different keys is done, unless an operator has resumed it. Asking again for the same
// key is free. It engages no brake.
func (b *Book) Spend(ctx context.Context, name, key string, limit int, window time.Duration) (bool, error) {
	var ok bool
	err := b.update(ctx, name, func(cm *corev1.ConfigMap, brake *brakes.Brake) string {
		var counted bool
		ok, counted = brake.Spend(key, limit, window, b.o.Clock.Now(), brakes.Resumed(cm, name, b.o.Clock.Now()))
		if counted {
			return counting
		}
		return ""
	})
	if err != nil {
		return false, fmt.Errorf("count what brake %s limits: %w", name, err)
	}
	return ok, nil
}

// Room reports, without a request, whether Spend would allow work with a new key. It is false while the record has not
// been read or is invalid.
func (b *Book) Room(name string, limit int, window time.Duration) bool {
	spent, ok := b.spent(name, window)
	return ok && (b.Resumed(name) || len(spent) < limit)
}

// Spent returns, without a request, the keys that were counted within the window.
func (b *Book) Spent(name string, window time.Duration) []string {
	var keys []string
	spent, _ := b.spent(name, window)
	for _, s := range spent {
		keys = append(keys, s.Key)
	}
	return keys
}

// spent is false while the record has not been read or is invalid.
func (b *Book) spent(name string, window time.Duration) ([]brakes.Spending, bool) {
	cm := b.current()
	if cm == nil {
		return nil, false
	}
	brake, err := brakes.Read(cm, name)
	return brake.Within(window, b.o.Clock.Now()), err == nil
}

// Resumed reports whether an operator has resumed the work of a brake.
func (b *Book) Resumed(name string) bool {
	cm := b.current()
	return cm != nil && brakes.Resumed(cm, name, b.o.Clock.Now())
}

// observe remembers the state of the ConfigMap, and reports what operators have changed.
func (b *Book) observe(obj any) {
	cm, ok := obj.(*corev1.ConfigMap)
	if !ok {
		return
	}
	before := b.remember(cm)
	if before == nil {
		before = &corev1.ConfigMap{}
	}
	for _, name := range brakes.Names(cm) {
		key := brakes.AnnotationResume(name)
		if before.Annotations[key] == cm.Annotations[key] {
			continue
		}
		until, err := brakes.ResumedUntil(cm, name)
		switch {
		case err != nil:
			b.o.Recorder.Event(cm, corev1.EventTypeWarning, eventInvalid, err.Error())
		case brakes.Resumed(cm, name, b.o.Clock.Now()):
			b.o.Recorder.Eventf(cm, corev1.EventTypeNormal, eventResumed, "Brake %s: the work is resumed until %s", name,
				until.Format(time.RFC3339))
		}
	}
}

// remember stores a state of the ConfigMap unless a later one is known, and returns the one that was known.
func (b *Book) remember(cm *corev1.ConfigMap) *corev1.ConfigMap {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.known
	if before != nil && before.UID == cm.UID {
		order, err := resourceversion.CompareResourceVersion(cm.ResourceVersion, before.ResourceVersion)
		if err == nil && order < 0 {
			return cm
		}
	}
	b.known = cm
	return before
}

// forget makes the Book start again: an operator has deleted the ConfigMap.
func (b *Book) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known != nil {
		b.known = &corev1.ConfigMap{}
	}
}

var engagedBrakes = prometheus.NewDesc("quaymaster_brake_engaged",
	"1 if the brake stops its work, 0 if not.", []string{"brake"}, nil)

var _ prometheus.Collector = (*Book)(nil)

// Describe implements prometheus.Collector.
func (b *Book) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- engagedBrakes }

// Collect implements prometheus.Collector. It reports nothing as long as the record has not been read, as in replicas
// that are not the leader.
func (b *Book) Collect(metrics chan<- prometheus.Metric) {
	cm := b.current()
	if cm == nil {
		return
	}
	names := brakes.Names(cm)
	for _, doc := range brakes.All() {
		names = append(names, doc.Name)
	}
	b.mu.Lock()
	names = slices.AppendSeq(names, maps.Keys(b.unstored))
	b.mu.Unlock()
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		value := 0.0
		if _, _, engaged := b.Engaged(name); engaged {
			value = 1
		}
		metrics <- prometheus.MustNewConstMetric(engagedBrakes, prometheus.GaugeValue, value, name)
	}
}
