//go:build linux

package kernel_test

import (
	"fmt"
	"testing"
	"time"

	"quaymaster.dev/internal/edge/config"
)

// A change must take effect at once, however many listeners there are.
func TestManyListeners(t *testing.T) {
	w := newWorld(t, 1, 3)
	const listeners = 1000
	w.config.Pools = make([]config.Pool, 0, listeners)
	for i := range listeners {
		w.listen("tcp", vip4, func(l *config.Listener, p *config.Pool) {
			l.LoadBalancer, l.Port = fmt.Sprintf("lb-%d", i), uint16(80+i)
			p.ID.LoadBalancer, l.Pool.LoadBalancer = l.LoadBalancer, l.LoadBalancer
			l.MaxQPS = 100
		})
	}
	timed := func(what string, limit time.Duration, change func()) {
		t.Helper()
		change()
		start := time.Now()
		w.apply()
		if took := time.Since(start); took > limit {
			t.Errorf("%s took %v, want at most %v", what, took, limit)
		} else {
			t.Logf("%s: %v", what, took)
		}
	}
	timed("first apply", 20*time.Second, func() {})
	timed("nothing", 2*time.Second, func() {})
	timed("one member of one pool", 2*time.Second, func() { w.config.Pools[5].Members[0].Draining = true })
	timed("one limit", 2*time.Second, func() { w.config.Listeners[5].MaxQPS++ })
	timed("a node of all pools", 3*time.Second, func() { w.down["node2"] = true })
	timed("restart", 20*time.Second, w.edges[0].restart)
	start := time.Now()
	if n := len(w.counters(w.edges[0])); n != 1 { // one by key
		t.Errorf("%d counters", n)
	}
	t.Logf("counters: %v", time.Since(start))
}
