package ratelimit_test

import (
	"testing"
	"time"

	"quaymaster.dev/internal/ratelimit"
)

func TestByKey(t *testing.T) {
	const every, burst, most = time.Minute, 2, 3
	limits, now := ratelimit.New[string](every, burst, most), time.Now()
	take := func(key string, at time.Duration) bool {
		_, ok := limits.Take(key, now.Add(at))
		return ok
	}
	for i, step := range []struct {
		key  string
		at   time.Duration
		want bool
	}{
		{"a", 0, true}, {"a", 0, true}, {"a", 0, false}, {"b", 0, true},
		{"a", every, true}, {"a", every, false},
		// a is the key that was used longest ago when a fourth one comes, and is forgotten.
		{"b", every, true}, {"c", every, true}, {"d", every, true}, {"a", every, true},
	} {
		if got := take(step.key, step.at); got != step.want {
			t.Errorf("step %d, %s after %s: %t", i, step.key, step.at, got)
		}
	}
	refund, ok := limits.Take("e", now)
	if !ok || !take("e", 0) || take("e", 0) {
		t.Fatal("not a burst of 2")
	}
	refund()
	if !take("e", 0) || take("e", 0) {
		t.Error("what was refunded counts")
	}
	if !limits.Allow("f") {
		t.Error("the first one is not allowed")
	}
}
