// Package worker empties the queues of controllers: it hands every item to a function, repeats failed items at the
// queue's rate limit and, when the controller stops, waits for the items that are being processed.
//
// It stands in for controller-runtime's unmanaged controllers: their metrics are not in the registry that the
// cloud-provider app serves, and they log every failed attempt of an outage as an error.
package worker

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// Result is what happens to an item next.
type Result struct {
	failed bool
	after  time.Duration
}

// Done leaves an item alone until it is added again.
func Done() Result { return Result{} }

// Retry counts a failure of an item and repeats it at the rate limit.
func Retry() Result { return Result{failed: true} }

// RetryAfter repeats a failed item after a delay that is known, instead of at the rate limit. The failures of the item
// still count: that it was postponed says nothing about them.
func RetryAfter(delay time.Duration) Result { return Result{failed: true, after: delay} }

// Again repeats an item after a fixed time and forgets its failures.
func Again(after time.Duration) Result { return Result{after: after} }

// Options configure a Queue.
type Options[T comparable] struct {
	// Name is the name in the metrics of work queues.
	Name string
	// Workers is the number of items that are processed at the same time; an item is never processed twice at the same
	// time.
	Workers int
	// RetryBase is the delay after the first failure of an item. It doubles with every further failure, up to RetryMax.
	RetryBase, RetryMax time.Duration
	// Timeout bounds the processing of one item; 0 means no bound.
	Timeout time.Duration
	// Flow returns the flow of an item, such as its namespace. Flows take turns, so that the items of one never wait for
	// more than one of each other flow. Without it, items are processed in their order.
	Flow func(item T) string
	// Process processes an item and logs its failures.
	Process func(ctx context.Context, item T) Result
	// Clock measures delays; nil means the real clock.
	Clock clock.WithTicker
}

// Queue is a rate-limited work queue and its workers. Items may be added before Run.
type Queue[T comparable] struct {
	workqueue.TypedRateLimitingInterface[T]
	// Collector counts failures: the metrics of work queues do not tell them from other delays.
	prometheus.Collector

	o        Options[T]
	failures prometheus.Counter
}

// New creates a Queue; Run runs its workers.
func New[T comparable](o Options[T]) *Queue[T] {
	o.Clock = cmp.Or[clock.WithTicker](o.Clock, clock.RealClock{})
	items := workqueue.DefaultQueue[T]()
	if o.Flow != nil {
		items = &turns[T]{flow: o.Flow, waiting: map[string][]T{}}
	}
	delaying := workqueue.TypedDelayingQueueConfig[T]{Name: o.Name, Clock: o.Clock}
	delaying.Queue = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: o.Name, Clock: o.Clock, Queue: items})
	failures := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "quaymaster_sync_failures_total", ConstLabels: prometheus.Labels{"name": o.Name},
		Help: "Attempts of controllers that failed, by the name of their queue.",
	})
	return &Queue[T]{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[T](o.RetryBase, o.RetryMax),
			workqueue.TypedRateLimitingQueueConfig[T]{DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(delaying)},
		),
		Collector: failures, failures: failures, o: o,
	}
}

// Run waits until the caches have synced and processes items until ctx ends. It returns when no worker runs any more.
func (q *Queue[T]) Run(ctx context.Context, synced ...cache.InformerSynced) {
	var running sync.WaitGroup
	defer running.Wait()
	defer q.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return
	}
	for range q.o.Workers {
		running.Go(func() {
			for q.next(ctx) {
			}
		})
	}
	<-ctx.Done()
}

// RunEvery is Run that also calls f every period, until ctx ends. The first call is after a period.
func (q *Queue[T]) RunEvery(ctx context.Context, period time.Duration, f func(), synced ...cache.InformerSynced) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { q.Run(ctx, synced...) })
	ticker := q.o.Clock.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			f()
		}
	}
}

// next processes one item. It returns false when there is no more to do.
func (q *Queue[T]) next(ctx context.Context) bool {
	item, stopped := q.Get()
	// A queue that is shut down still returns the items in it.
	if stopped || ctx.Err() != nil {
		return false
	}
	defer q.Done(item)
	result := q.process(ctx, item)
	if result.failed {
		q.failures.Inc()
	}
	switch {
	case !result.failed:
		q.Forget(item)
		if result.after > 0 {
			q.AddAfter(item, result.after)
		}
	case result.after > 0:
		q.AddAfter(item, result.after)
	default:
		q.AddRateLimited(item)
	}
	return true
}

func (q *Queue[T]) process(ctx context.Context, item T) Result {
	if q.o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, q.o.Timeout)
		defer cancel()
	}
	return q.o.Process(ctx, item)
}
