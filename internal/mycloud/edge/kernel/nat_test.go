//go:build linux

package kernel_test

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/internal/mycloud/edge/kernel"
)

func nat(l *config.Listener, _ *config.Pool) { l.Engine = config.NAT }

func TestNAT(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 2)
	for _, protocol := range []string{"tcp", "udp"} {
		w.listen(protocol, vip4, nat)
		w.listen(protocol, vip6, nat)
	}
	w.apply()
	for _, protocol := range []string{"tcp", "udp"} {
		for vip, source := range map[netip.Addr]netip.Addr{vip4: w.Edges[0].Inner4, vip6: w.Edges[0].Inner6} {
			all := w.open(40, protocol, vip)
			if len(all["node1"]) < 8 || len(all["node2"]) < 8 {
				t.Errorf("%s %s: %d and %d connections, want about 20 each", protocol, vip, len(all["node1"]), len(all["node2"]))
			}
			for _, c := range flatten(all) {
				if c.client != source.String() {
					t.Fatalf("%s %s: the node sees client %s, want the edge, %s", protocol, vip, c.client, source)
				}
			}
		}
	}
	if c := w.counters(w.edges[0])["tcp/80"]; c.Accepted != 40 || c.BytesIn == 0 {
		t.Errorf("counters %+v, want 40 connections and some bytes", c)
	}

	w.config.Listeners[0].Allowed = prefixes("10.0.0.0/8")
	w.apply()
	if _, err := w.dialFor(300*time.Millisecond, "tcp", vip4); err == nil {
		t.Error("a client outside the source ranges is served")
	}
	w.config.Listeners[0].Allowed = nil
	w.down["node1"], w.down["node2"] = true, true
	w.apply()
	for _, protocol := range []string{"tcp", "udp"} {
		if _, err := w.dial(protocol, vip4); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s without healthy members: error %v, want connection refused", protocol, err)
		}
	}
}

// A load balancer that has its share of the connections gets no more, and others do, also after a change and a restart.
func TestConnectionsHaveAShare(t *testing.T) {
	t.Parallel()
	const share = 20
	w := newWorld(t, 1, 2)
	restart := func() {
		w.edges[0].engine = kernel.New(kernel.Options{Dir: w.edges[0].dir, MaxConnections: share})
	}
	restart()
	other := vip4.Next()
	for _, vip := range []netip.Addr{vip4, vip6, other} {
		w.listen("tcp", vip, nat)
	}
	w.apply()
	for _, vip := range []netip.Addr{vip4, vip6} {
		held := flatten(w.open(share, "tcp", vip))
		for what, change := range map[string]func(){
			"nothing": func() {},
			"change":  func() { w.config.Listeners[0].Allowed = prefixes("0.0.0.0/0", "::/0"); w.apply() },
			"restart": func() { restart(); w.apply() },
		} {
			change()
			if _, err := w.dial("tcp", vip); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%s, after %s: a connection beyond the share: error %v, want connection refused", vip, what, err)
			}
		}
		w.open(2, "tcp", other)
		if n := broken(held...); n > 0 {
			t.Errorf("%s: %d of %d connections broke", vip, n, share)
		}
		for _, c := range held[:share/2] {
			w.must(c.Close())
		}
		again, deadline := 0, time.Now().Add(5*time.Second)
		for again < share/2 && time.Now().Before(deadline) {
			if _, err := w.dial("tcp", vip); err == nil {
				again++
			}
		}
		if again < share/2 {
			t.Errorf("%s: %d connections in place of %d that have ended", vip, again, share/2)
		}
	}
}

func TestNATMembersLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 3)
	for _, protocol := range []string{"tcp", "udp"} {
		w.listen(protocol, vip4, func(l *config.Listener, p *config.Pool) { l.Engine, p.Drain = config.NAT, time.Hour })
	}
	w.apply()
	tcp, udp := w.open(60, "tcp", vip4), w.open(30, "udp", vip4)

	// The second node drains, and leaves; the third is lost, while no engine runs.
	for i := range w.config.Pools {
		w.config.Pools[i].Members[1].Draining = true
	}
	w.apply()
	if n := broken(append(flatten(tcp), flatten(udp)...)...); n > 0 {
		t.Errorf("%d of 90 flows broke when a member drained", n)
	}
	for i := range w.config.Pools {
		w.config.Pools[i].Members = slices.Delete(w.config.Pools[i].Members, 1, 2)
	}
	w.down["node3"] = true
	w.must(w.Nodes[2].Cut())
	w.edges[0].restart()
	w.apply()
	others := append(append(tcp["node1"], tcp["node2"]...), append(udp["node1"], udp["node2"]...)...)
	if n := broken(others...); n > 0 {
		t.Errorf("%d of %d flows broke when another member was lost", n, len(others))
	}
	for _, c := range udp["node3"] {
		c.node = ""
		if err := c.exchange(); err != nil {
			t.Errorf("a flow of the lost node did not move: %v", err)
		}
	}
	if after := w.open(20, "tcp", vip4); len(after["node1"]) != 20 {
		t.Errorf("%d of 20 new connections went to the only member", len(after["node1"]))
	}
}

func TestNATUpdatesLoseNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 3)
	w.listen("udp", vip4, func(l *config.Listener, p *config.Pool) { l.Engine, p.Drain = config.NAT, time.Hour })
	w.listen("tcp", vip4, nat)
	w.apply()
	w.updateUnderTraffic(100)
}

func TestNATAffinity(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 3)
	w.listen("tcp", vip6, func(l *config.Listener, p *config.Pool) {
		l.Engine, p.Algorithm = config.NAT, cloudv1.AlgorithmSourceIP
	})
	w.apply()
	if all := w.open(15, "tcp", vip6); len(all) != 1 {
		t.Errorf("connections of one client went to %d nodes", len(all))
	}
}
