// Package ratelimit limits how often something happens for each of many keys, such as the addresses of callers.
package ratelimit

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// ByKey has a limiter for each key. It remembers the keys that were used last. It is safe for concurrent use.
type ByKey[K comparable] struct {
	every time.Duration
	burst int

	mu    sync.Mutex
	known *lru.Cache
}

// New returns limiters that allow burst events at once, and one more after each period. most is how many keys are
// remembered.
func New[K comparable](every time.Duration, burst, most int) *ByKey[K] {
	return &ByKey[K]{every: every, burst: burst, known: lru.New(most)}
}

// Allow counts an event. It returns false, and counts nothing, if it is one too many.
func (b *ByKey[K]) Allow(key K) bool {
	_, ok := b.Take(key, time.Now())
	return ok
}

// Take is Allow at a time. refund makes the event not count.
func (b *ByKey[K]) Take(key K, now time.Time) (refund func(), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known, ok := b.known.Get(key)
	if !ok {
		known = rate.NewLimiter(rate.Every(b.every), b.burst)
		b.known.Add(key, known)
	}
	limiter, _ := known.(*rate.Limiter)
	if limiter.TokensAt(now) < 1 {
		return nil, false
	}
	taken := limiter.ReserveN(now, 1)
	// A reservation can only be canceled as of a time before it acts, which this one does now.
	return func() { taken.CancelAt(now) }, true
}
