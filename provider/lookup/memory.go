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

// memory holds answers of the cloud by key, and makes one read of those of the same key that come together.
type memory[T any] struct {
	gate    *gate
	flights singleflight.Group
	answers *cache.LRUExpireCache
	tell    func(Result)

	ttl, notFoundTTL, failureTTL time.Duration
}

// answer is what the cloud said, or why it did not.
type answer[T any] struct {
	value T
	err   error
}

func newMemory[T any](g *gate, kind Kind, entries int, o Options) *memory[T] {
	return &memory[T]{
		gate: g, tell: func(r Result) { o.OnLookup(kind, r) }, answers: cache.NewLRUExpireCacheWithClock(entries, o.Clock),
		ttl: o.TTL, notFoundTTL: o.NotFoundTTL, failureTTL: o.FailureTTL,
	}
}

// get is the answer that is remembered, else that of a read.
func (m *memory[T]) get(ctx context.Context, key string, read func(context.Context) (T, error)) (T, error) {
	if a, ok := m.remember(key); ok {
		m.note(ResultHit, a.err)
		return a.value, a.err
	}
	value, err := m.fly(ctx, "get "+key, func(ctx context.Context) answer[T] {
		// Another flight may have landed since the look above.
		if a, ok := m.remember(key); ok {
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

// fresh is the answer of a read that has not ended yet.
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

// note tells what came of a question, where answered is the result if there was an answer.
func (m *memory[T]) note(answered Result, err error) {
	if err != nil && !errors.Is(err, cloudprovider.DiskNotFound) {
		answered = ResultUnavailable
	}
	m.tell(answered)
}

// fly joins the flight of that name, or starts it. A flight does not end with the one who started it: others wait for it, too.
func (m *memory[T]) fly(ctx context.Context, name string, ask func(context.Context) answer[T]) (T, error) {
	landed := m.flights.DoChan(name, func() (value any, err error) {
		defer func() {
			// Nobody above would recover it: a flight has its own goroutine.
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

func (m *memory[T]) remember(key string) (answer[T], bool) {
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
		return m.notFoundTTL
	default:
		return m.failureTTL
	}
}
