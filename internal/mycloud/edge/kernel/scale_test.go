//go:build linux

package kernel_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quaymaster.dev/internal/mycloud/edge/config"
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

// What the engine does must not take longer with many flows, which nft reads whenever it lists anything.
func TestManyFlows(t *testing.T) {
	w := newWorld(t, 1, 2)
	w.listen("tcp", vip4, func(_ *config.Listener, p *config.Pool) { p.Drain = time.Hour })
	w.listen("udp", vip4, nat)
	w.apply()
	var script strings.Builder
	const batch = 1000
	for i := range 100 * batch {
		if i%batch == 0 {
			script.WriteString("add element inet mycloud-edge flows/tcp4 { ")
		}
		fmt.Fprintf(&script, "10.%d.%d.%d . %s . 1024 . 80 : 0x4d430001, ", i>>16, i>>8&255, i&255, vip4)
		if i%batch == batch-1 {
			script.WriteString("}\n")
		}
	}
	file := filepath.Join(t.TempDir(), "flows.nft")
	w.must(os.WriteFile(file, []byte(script.String()), 0o600))
	if _, err := w.Edges[0].Run(t.Context(), "nft", "-f", file); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(){
		"counters":     func() { w.counters(w.edges[0]) },
		"restart":      func() { w.edges[0].restart(); w.apply() },
		"a new member": func() { w.config.Pools[0].Members[0].Draining = true; w.apply() },
	} {
		start := time.Now()
		change()
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("%s: %v with 100,000 flows", what, took)
		} else {
			t.Logf("%s: %v", what, took)
		}
	}
}
