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

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// memory caches volumes by id, and merges concurrent reads of the same key.
type memory struct {
	gate    *gate
	flights singleflight.Group
	answers *cache.LRUExpireCache
	observe func(Result)
}

// answer is the result of a read.
type answer struct {
	value *cloudv1.Volume
	err   error
}

func newMemory(g *gate, o Options) *memory {
	return &memory{
		gate: g, observe: func(r Result) { o.OnLookup(KindVolume, r) },
		answers: cache.NewLRUExpireCacheWithClock(maxEntries, o.Clock),
	}
}

// get returns the cached answer, or that of a new read.
func (m *memory) get(ctx context.Context, key string, read func(context.Context) (*cloudv1.Volume, error)) (*cloudv1.Volume, error) {
	if a, ok := m.cached(key); ok {
		m.note(ResultHit, a.err)
		return a.value, a.err
	}
	value, err := m.fly(ctx, "get "+key, func(ctx context.Context) answer {
		// Another flight may have landed since the check above.
		if a, ok := m.cached(key); ok {
			return a
		}
		return m.ask(ctx, read, func(a answer) { m.answers.Add(key, a, lifetime(a.err)) })
	})
	m.note(ResultMiss, err)
	return value, err
}

// fresh returns the answer of a read that has not ended yet.
func (m *memory) fresh(ctx context.Context, key string, read func(context.Context) (*cloudv1.Volume, error)) (*cloudv1.Volume, error) {
	value, err := m.fly(ctx, "fresh "+key, func(ctx context.Context) answer { return m.ask(ctx, read, func(answer) {}) })
	m.note(ResultMiss, err)
	return value, err
}

// ask reads when it is its turn, and keeps the answer.
func (m *memory) ask(
	ctx context.Context, read func(context.Context) (*cloudv1.Volume, error), keep func(answer),
) (a answer) {
	a.err = m.gate.pass(ctx, func(ctx context.Context) (err error) {
		a.value, err = read(ctx)
		keep(answer{a.value, err})
		return err
	})
	return a
}

// note reports the result of a lookup: answered if there was an answer.
func (m *memory) note(answered Result, err error) {
	if err != nil && !errors.Is(err, cloudprovider.DiskNotFound) {
		answered = ResultUnavailable
	}
	m.observe(answered)
}

// fly joins the flight of that name, or starts it. A flight outlives the caller that started it because others may wait
// for it, too.
func (m *memory) fly(ctx context.Context, name string, ask func(context.Context) answer) (*cloudv1.Volume, error) {
	landed := m.flights.DoChan(name, func() (value any, err error) {
		defer func() {
			// A flight has its own goroutine, so no caller could recover the panic.
			if p := recover(); p != nil {
				value = answer{err: fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
			}
		}()
		return ask(context.WithoutCancel(ctx)), nil
	})
	select {
	case result := <-landed:
		a := result.Val.(answer)
		return a.value, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the cloud: %w", ctx.Err())
	}
}

func (m *memory) cached(key string) (answer, bool) {
	known, _ := m.answers.Get(key)
	a, ok := known.(answer)
	return a, ok
}

func lifetime(err error) time.Duration {
	switch {
	case err == nil:
		return ttl
	case errors.Is(err, cloudprovider.DiskNotFound):
		return notFoundTTL
	default:
		return failureTTL
	}
}
