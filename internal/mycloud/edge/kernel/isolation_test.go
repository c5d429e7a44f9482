//go:build linux

package kernel_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/internal/mycloud/edge/kernel"
	"quaymaster.dev/test/harness/edgenet"
)

// applied returns the faults of an edge, which must apply the configuration.
func (w *world) applied(e *edge) (faults []cloudv1.EdgeFault) {
	w.t.Helper()
	w.must(e.Do(func() (err error) {
		faults, err = e.engine.Apply(w.t.Context(), w.config, func(_ config.PoolID, member string) bool { return !w.down[member] })
		return err
	}))
	return faults
}

// A member whose address is not one of a machine is that member's fault: the others of its listener serve, and other
// listeners change.
func TestMembersThatAreNone(t *testing.T) {
	for name, tt := range map[string]struct {
		vip     netip.Addr
		address netip.Addr
		engine  config.Engine
		want    string
	}{
		"broadcast":           {vip4, netip.Addr{}, config.Direct, "is not the address of one machine"},
		"broadcast, NAT":      {vip4, netip.Addr{}, config.NAT, "is not the address of one machine"},
		"multicast":           {vip4, netip.MustParseAddr("224.0.0.1"), config.Direct, "224.0.0.1"},
		"multicast, IPv6":     {vip6, netip.MustParseAddr("ff02::1"), config.Direct, "is not the address of one machine"},
		"multicast, IPv6 NAT": {vip6, netip.MustParseAddr("ff02::1"), config.NAT, "is not the address of one machine"},
		"loopback":            {vip4, netip.MustParseAddr("127.0.0.1"), config.NAT, "is an address of the edge itself"},
		"the load balancer":   {vip4, vip4, config.NAT, "is an address of the edge itself"},
		"no route":            {vip4, netip.MustParseAddr("192.0.2.7"), config.Direct, "there is no route"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 2)
			address := tt.address
			if !address.IsValid() {
				address = broadcastOf(t, w.Edges[0])
			}
			pool := w.listen("tcp", tt.vip, func(l *config.Listener, _ *config.Pool) { l.Engine = tt.engine })
			w.must(w.edges[0].Do(func() error { return w.edges[0].answer(t.Context(), w.config.Addresses) }))
			pool.Members = append(pool.Members, config.Member{Key: "bad", Address: address, Port: 8080, Weight: 1})
			w.listen("udp", vip4, nil)
			faults := w.applied(w.edges[0])
			if len(faults) != 1 || faults[0].ListenerKey != "tcp/80" || !strings.Contains(faults[0].Detail, tt.want) ||
				!strings.Contains(faults[0].Detail, "member bad") {
				t.Errorf("faults %v, want one of the member with %q", faults, tt.want)
			}
			w.open(20, "tcp", tt.vip)
			w.open(5, "udp", vip4)
			w.down["node2"] = true
			w.applied(w.edges[0])
			if all := w.open(10, "tcp", tt.vip); len(all["node2"]) > 0 {
				t.Error("a change of health was not applied")
			}
		})
	}
}

// broadcastOf returns the broadcast address of the network of the nodes.
func broadcastOf(t *testing.T, m *edgenet.Machine) netip.Addr {
	t.Helper()
	out, err := m.Run(t.Context(), "ip", "route", "show", "table", "local", "type", "broadcast", "dev", edgenet.Inner)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	address, err := netip.ParseAddr(strings.Fields(lines[len(lines)-1])[0])
	if err != nil {
		// The kind is printed first.
		address = netip.MustParseAddr(strings.Fields(lines[len(lines)-1])[1])
	}
	return address
}

// A fault that lasts costs everyone less and less, and a new one is looked at soon.
func TestLastingFaults(t *testing.T) {
	w := newWorld(t, 1, 1)
	clock := testingclock.NewFakePassiveClock(time.Now())
	w.edges[0].engine = kernel.New(kernel.Options{Dir: w.edges[0].dir, Clock: clock})
	pool := w.listen("tcp", vip4, nil)
	bad := func(address string) {
		pool.Members = append(pool.Members, config.Member{Key: address, Address: netip.MustParseAddr(address), Port: 8080, Weight: 1})
	}
	checks := func(seconds int) (n int) {
		for range seconds {
			clock.SetTime(clock.Now().Add(time.Second))
			if w.edges[0].engine.Due() {
				n++
				w.applied(w.edges[0])
			}
		}
		return n
	}
	bad("192.0.2.7")
	w.applied(w.edges[0])
	if n := checks(60); n < 6 || n > 10 {
		t.Errorf("%d checks in a minute, want one every ten seconds after the first ones", n)
	}
	bad("192.0.2.8")
	w.applied(w.edges[0])
	if n := checks(1); n != 1 {
		t.Error("a new fault is not looked at again after a second")
	}
}

// A new member with the address of one that is leaving gets new connections.
func TestAddressOfALeavingMember(t *testing.T) {
	for name, engine := range map[string]config.Engine{"direct": config.Direct, "nat": config.NAT} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 2)
			pool := w.listen("tcp", vip4, func(l *config.Listener, p *config.Pool) { l.Engine, p.Drain = engine, time.Hour })
			w.apply()
			old := w.open(20, "tcp", vip4)
			pool.Members[0].Draining = true
			reused := pool.Members[0]
			reused.Key, reused.Draining = "zzz", false
			pool.Members = append(pool.Members, reused)
			w.apply()
			if all := w.open(20, "tcp", vip4); len(all["node1"]) == 0 {
				t.Error("the new member gets nothing")
			}
			if n := broken(flatten(old)...); n > 0 {
				t.Errorf("%d connections broke", n)
			}
		})
	}
}

// An edge is no router for packets that belong to no listener, unless it is to be one.
func TestForwardsNothingElse(t *testing.T) {
	for _, router := range []bool{false, true} {
		t.Run(fmt.Sprint("router ", router), func(t *testing.T) {
			w := newWorld(t, 1, 1)
			w.edges[0].engine = kernel.New(kernel.Options{Dir: w.edges[0].dir, Router: router})
			w.listen("tcp", vip4, nil)
			w.listen("udp", vip4, nat)
			w.apply()
			w.open(3, "tcp", vip4)
			w.open(3, "udp", vip4)
			elsewhere := netip.MustParseAddrPort("192.0.2.1:8080")
			for m, args := range map[*edgenet.Machine]string{
				w.Nodes[0]: "address add 192.0.2.1/32 dev lo",
				w.Edges[0]: "route add 192.0.2.1 via " + w.Nodes[0].Inner4.String(),
				w.Client:   "route add 192.0.2.1 via " + w.Edges[0].Outer4.String(),
			} {
				if _, err := m.Run(t.Context(), "ip", strings.Fields(args)...); err != nil {
					t.Fatal(err)
				}
			}
			_, err := w.dialTo(300*time.Millisecond, "tcp", elsewhere)
			if reached := err == nil; reached != router {
				t.Errorf("error %v, want it forwarded: %v", err, router)
			}
		})
	}
}
