package worker_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"quaymaster.dev/controllers/worker"
)

// run starts a Queue and returns the function that stops it.
func run[T comparable](t *testing.T, q *worker.Queue[T]) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { q.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

func TestRepeats(t *testing.T) {
	for name, tt := range map[string]struct {
		results []worker.Result
		// want are the times of the attempts since the first one.
		want []time.Duration
	}{
		"done": {results: []worker.Result{worker.Done()}, want: []time.Duration{0}},
		"failures double the delay up to the maximum": {
			results: []worker.Result{worker.Retry(), worker.Retry(), worker.Retry(), worker.Retry(), worker.Done()},
			want:    []time.Duration{0, 1 * time.Second, 3 * time.Second, 7 * time.Second, 11 * time.Second},
		},
		"a fixed delay forgets failures": {
			results: []worker.Result{worker.Retry(), worker.Again(time.Minute), worker.Retry(), worker.Done()},
			want:    []time.Duration{0, 1 * time.Second, 61 * time.Second, 62 * time.Second},
		},
		"a postponement does not forget failures": {
			results: []worker.Result{worker.Retry(), worker.RetryAfter(time.Minute), worker.Retry(), worker.Done()},
			want:    []time.Duration{0, 1 * time.Second, 61 * time.Second, 63 * time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				var attempts []time.Duration
				q := worker.New(worker.Options[string]{
					Name: "test", Workers: 1, RetryBase: time.Second, RetryMax: 4 * time.Second,
					Process: func(context.Context, string) worker.Result {
						attempts = append(attempts, time.Since(begin).Round(time.Second))
						return tt.results[len(attempts)-1]
					},
				})
				stop := run(t, q)
				q.Add("item")
				time.Sleep(time.Hour)
				stop()
				if !slices.Equal(attempts, tt.want) {
					t.Errorf("attempts after %v, want %v", attempts, tt.want)
				}
			})
		})
	}
}

// However many items a flow has, those of others wait for one of them at most.
func TestFlowsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		q := worker.New(worker.Options[string]{
			Name: "test", Workers: 1, RetryBase: time.Second, RetryMax: time.Second,
			Flow:    func(item string) string { return item[:1] },
			Process: func(_ context.Context, item string) worker.Result { order = append(order, item); return worker.Done() },
		})
		for _, item := range []string{"a1", "a2", "a3", "a2", "b1", "c1", "b2", "a4"} {
			q.Add(item)
		}
		if q.Len() != 7 {
			t.Errorf("%d items", q.Len())
		}
		stop := run(t, q)
		time.Sleep(time.Second)
		q.Add("a5")
		time.Sleep(time.Second)
		stop()
		if want := []string{"a1", "b1", "c1", "a2", "b2", "a3", "a4", "a5"}; !slices.Equal(order, want) {
			t.Errorf("order %v, want %v", order, want)
		}
	})
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began, ended []int
		q := worker.New(worker.Options[int]{
			Name: "test", Workers: 1, RetryBase: time.Second, RetryMax: time.Second,
			Process: func(_ context.Context, item int) worker.Result {
				began = append(began, item)
				time.Sleep(time.Minute)
				ended = append(ended, item)
				return worker.Retry()
			},
		})
		q.Add(1)
		stop := run(t, q)
		time.Sleep(time.Second)
		q.Add(2)
		stop()
		if want := []int{1}; !slices.Equal(began, want) || !slices.Equal(ended, want) {
			t.Errorf("began %v, ended %v, want the item in progress to end and no other to begin", began, ended)
		}
	})
}

func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := 0, 0
		q := worker.New(worker.Options[int]{
			Name: "test", Workers: 2, RetryBase: time.Second, RetryMax: time.Second, Timeout: time.Second,
			Process: func(ctx context.Context, _ int) worker.Result {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				<-ctx.Done() // by the timeout
				mu.Lock()
				running--
				mu.Unlock()
				return worker.Done()
			},
		})
		stop := run(t, q)
		defer stop()
		for item := range 5 {
			q.Add(item)
		}
		time.Sleep(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if most != 2 || running != 0 || q.Len() != 0 {
			t.Errorf("at most %d items at the same time, %d running, %d waiting; want 2, 0, 0", most, running, q.Len())
		}
	})
}

// Only failures count, unlike in the metrics of work queues, which count every delay.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results := []worker.Result{
			worker.Retry(), worker.RetryAfter(time.Minute), worker.Again(time.Minute), worker.Retry(), worker.Done(),
		}
		q := worker.New(worker.Options[string]{
			Name: "test", Workers: 1, RetryBase: time.Second, RetryMax: time.Second,
			Process: func(context.Context, string) worker.Result {
				result := results[0]
				results = results[1:]
				return result
			},
		})
		stop := run(t, q)
		q.AddAfter("item", time.Second)
		time.Sleep(time.Hour)
		stop()
		if got := testutil.ToFloat64(q); got != 3 || len(results) > 0 {
			t.Errorf("%g failures, %d results left", got, len(results))
		}
	})
}
