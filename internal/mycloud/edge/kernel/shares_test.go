//go:build linux

package kernel_test

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/internal/mycloud/edge/kernel"
)

// tenant adds a listener of another load balancer on an address of its own.
func (w *world) tenant(protocol string, vip netip.Addr, change func(*config.Listener, *config.Pool)) *config.Pool {
	w.t.Helper()
	pool := w.listen(protocol, vip, func(l *config.Listener, p *config.Pool) {
		l.LoadBalancer = "lb-" + vip.String()
		p.ID.LoadBalancer, l.Pool.LoadBalancer = l.LoadBalancer, l.LoadBalancer
		if change != nil {
			change(l, p)
		}
	})
	for _, node := range w.Nodes {
		w.must(node.Publish(w.t.Context(), protocol, netip.AddrPortFrom(vip, 80), backendPort))
	}
	return pool
}

// tracked returns how many connections the first edge tracks.
func (w *world) tracked() (n int) {
	w.t.Helper()
	w.must(w.edges[0].Do(func() error {
		// The kernel's own count has those of packets that are refused, too.
		text, err := os.ReadFile("/proc/thread-self/net/nf_conntrack")
		n = strings.Count(string(text), "\n")
		return err
	}))
	return n
}

// overflow returns what a load balancer had beyond its share on the first edge.
func (w *world) overflow(loadBalancer string) (o config.Overflow) {
	w.t.Helper()
	w.counters(w.edges[0])
	for _, o := range w.edges[0].engine.Overflows() {
		if o.LoadBalancer == loadBalancer {
			return o
		}
	}
	w.t.Fatalf("load balancer %s has no share", loadBalancer)
	return o
}

func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// However many flows the clients of one load balancer begin, those of another are remembered: they stay on a member that
// drains.
func TestFlowsHaveAShare(t *testing.T) {
	const flows = 1 << 14
	for _, protocol := range []string{"tcp", "udp"} {
		t.Run(protocol, func(t *testing.T) {
			w := newWorld(t, 1, 2)
			w.edges[0].engine = kernel.New(kernel.Options{Dir: w.edges[0].dir, MaxFlows: flows})
			w.listen("udp", vip4, func(l *config.Listener, _ *config.Pool) { l.Port, l.IdleTimeout = 81, time.Hour })
			// TCP and UDP have flows of their own.
			w.listen("tcp", vip4, func(l *config.Listener, _ *config.Pool) { l.Port, l.IdleTimeout = 81, time.Hour })
			other := vip4.Next()
			w.tenant(protocol, other, func(_ *config.Listener, p *config.Pool) { p.Drain = time.Hour })
			w.apply()
			load := w.floodOf(protocol, netip.AddrPortFrom(vip4, 81))
			w.eventually("there is no room for more flows", func() bool { return w.overflow("lb-1").Packets > 0 })
			witness := w.open(flows/512, protocol, other)
			w.config.Pools[len(w.config.Pools)-1].Members[0].Draining = true
			w.apply()
			if n := broken(flatten(witness)...); n > 0 || len(witness["node1"]) == 0 {
				t.Errorf("%d flows of another load balancer broke; %d were on the member that drains", n, len(witness["node1"]))
			}
			t.Logf("%d packets of new flows, %d of them not remembered", load.end(), w.overflow("lb-1").Packets)
			if n := w.overflow("lb-" + other.String()).Packets; n > 0 {
				t.Errorf("%d packets of another load balancer were not remembered", n)
			}
		})
	}
}

// The connections that an address has cost others nothing: the kernel does not look at all of them for each new one.
func TestManyConnectionsOfOneAddress(t *testing.T) {
	const many, most = 12000, 10
	w := newWorld(t, 1, 1)
	other := vip4.Next()
	for _, vip := range []netip.Addr{vip4, other} {
		w.tenant("udp", vip, func(l *config.Listener, _ *config.Pool) { l.Engine, l.IdleTimeout = config.NAT, time.Hour })
	}
	w.apply()
	// fill begins new flows, and returns how long that takes.
	port := 1024
	fill := func(vip netip.Addr, n int) time.Duration {
		start := time.Now()
		w.must(w.Client.Do(func() error {
			for range n {
				port++
				if err := newFlow("udp", netip.AddrPortFrom(vip, 80), port); err != nil {
					return err
				}
			}
			return nil
		}))
		return time.Since(start)
	}
	fill(vip4, many)
	if n := w.tracked(); n < many {
		t.Fatalf("%d connections are tracked, want %d", n, many)
	}
	var full, empty []time.Duration
	for range 20 {
		// The kernel looks once per tick.
		time.Sleep(10 * time.Millisecond)
		full, empty = append(full, fill(vip4, 1)), append(empty, fill(other, 1))
	}
	t.Logf("a new flow: %v with %d connections, %v with few", slices.Min(full), many, slices.Min(empty))
	if slices.Min(full) > most*slices.Min(empty) {
		t.Errorf("it must take at most %d times as long", most)
	}
}

// An address that has its share of connections is refused more, which is counted.
func TestConnectionsBeyondTheShareAreCounted(t *testing.T) {
	const share = 300
	w := newWorld(t, 1, 1)
	w.edges[0].engine = kernel.New(kernel.Options{Dir: w.edges[0].dir, MaxConnections: share})
	w.tenant("udp", vip4, nat)
	other := vip4.Next()
	w.tenant("udp", other, nat)
	w.apply()
	lb := func(vip netip.Addr) string { return "lb-" + vip.String() }
	load := w.floodOf("udp", netip.AddrPortFrom(vip4, 80))
	w.eventually("connections are refused", func() bool { return w.overflow(lb(vip4)).Connections > 100 })
	if n := broken(flatten(w.open(20, "udp", other))...); n > 0 {
		t.Errorf("%d connections of another load balancer broke", n)
	}
	load.end()
	if n := w.overflow(lb(other)).Connections; n > 0 {
		t.Errorf("%d connections of another load balancer were refused", n)
	}
	if n := w.tracked(); n > share+50 {
		t.Errorf("%d connections are tracked, want at most %d and those of another load balancer", n, share)
	}
}

// Connections that conntrack need not know have no place in its table: answers of direct listeners that pass the edge,
// and connections that are closed.
func TestTableOfConnectionsStaysEmpty(t *testing.T) {
	w := newWorld(t, 1, 1)
	for _, protocol := range []string{"tcp", "udp"} {
		w.listen(protocol, vip4, nil)
		w.listen(protocol, vip6, nil)
	}
	other := vip4.Next()
	w.tenant("tcp", other, nat)
	w.apply()
	w.must(w.AnswerVia(w.Edges[0]))
	for _, protocol := range []string{"tcp", "udp"} {
		for _, vip := range []netip.Addr{vip4, vip6} {
			if n := broken(flatten(w.open(20, protocol, vip))...); n > 0 {
				t.Errorf("%d connections broke", n)
			}
		}
	}
	if n := w.tracked(); n > 0 {
		t.Errorf("%d connections are tracked, want none", n)
	}
	for _, c := range flatten(w.open(20, "tcp", other)) {
		w.must(c.Close())
	}
	w.eventually(fmt.Sprintf("those that are closed are forgotten, of %d", w.tracked()), func() bool { return w.tracked() == 0 })
}
