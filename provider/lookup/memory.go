package lookup

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/cache"
	cloudprovider "k8s.io/cloud-provider"
)

// memory caches results by key, and merges concurrent reads of the same key.
type memory[T any] struct {
	gate    *gate
	flights singleflight.Group
	answers *cache.LRUExpireCache
	observe func(Result)

	ttl time.Duration
}

// answer is the result of a read.
type answer[T any] struct {
	value T
	err   error
}

func newMemory[T any](g *gate, kind Kind, entries int, o Options) *memory[T] {
	return &memory[T]{
		gate: g, observe: func(r Result) { o.OnLookup(kind, r) }, answers: cache.NewLRUExpireCacheWithClock(entries, o.Clock),
		ttl: o.TTL,
	}
}

// get returns the cached answer, or that of a new read.
func (m *memory[T]) get(ctx context.Context, key string, read func(context.Context) (T, error)) (T, error) {
	if a, ok := m.cached(key); ok {
		m.note(ResultHit, a.err)
		return a.value, a.err
	}
	value, err := m.fly(ctx, "get "+key, func(ctx context.Context) answer[T] {
		// Another flight may have landed since the check above.
		if a, ok := m.cached(key); ok {
			return a
		}
		var a answer[T]
		a.err = m.gate.pass(ctx, func(ctx context.Context) (err error) {
			a.value, err = read(ctx)
			m.answers.Add(key, answer[T]{a.value, err}, m.lifetime(err))
			return err
		})
		return a
	})
	m.note(ResultMiss, err)
	return value, err
}

// fresh returns the answer of a read that has not ended yet.
func (m *memory[T]) fresh(ctx context.Context, key string, read func(context.Context) (T, error)) (T, error) {
	value, err := m.fly(ctx, "fresh "+key, func(ctx context.Context) (a answer[T]) {
		a.err = m.gate.pass(ctx, func(ctx context.Context) (err error) {
			a.value, err = read(ctx)
			return err
		})
		return a
	})
	m.note(ResultMiss, err)
	return value, err
}

// note reports the result of a lookup: answered if there was an answer.
func (m *memory[T]) note(answered Result, err error) {
	if err != nil && !errors.Is(err, cloudprovider.DiskNotFound) {
		answered = ResultUnavailable
	}
	m.observe(answered)
}

// fly joins the flight of that name, or starts it. A flight outlives the caller that started it because others may wait
// for it, too.
func (m *memory[T]) fly(ctx context.Context, name string, ask func(context.Context) answer[T]) (T, error) {
	landed := m.flights.DoChan(name, func() (value any, err error) {
		defer func() {
			// A flight has its own goroutine, so no caller could recover the panic.
			if p := recover(); p != nil {
				value = answer[T]{err: fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
			}
		}()
		return ask(context.WithoutCancel(ctx)), nil
	})
	select {
	case result := <-landed:
		a := result.Val.(answer[T])
		return a.value, a.err
	case <-ctx.Done():
		var nothing T
		return nothing, fmt.Errorf("wait for the cloud: %w", ctx.Err())
	}
}

func (m *memory[T]) cached(key string) (answer[T], bool) {
	a, ok := m.answers.Get(key)
	if !ok {
		return answer[T]{}, false
	}
	return a.(answer[T]), true
}

func (m *memory[T]) lifetime(err error) time.Duration {
	switch {
	case err == nil:
		return m.ttl
	case errors.Is(err, cloudprovider.DiskNotFound):
		return notFoundTTL
	default:
		return failureTTL
	}
}
