//go:build linux

package kernel_test

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/test/harness/edgenet"
)

func TestDirect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 2)
	for _, protocol := range []string{"tcp", "udp"} {
		w.listen(protocol, vip4, nil)
		w.listen(protocol, vip6, nil)
	}
	w.apply()
	for _, via := range []string{"past the edge", "through the edge"} {
		for _, protocol := range []string{"tcp", "udp"} {
			for vip, client := range map[netip.Addr]netip.Addr{vip4: w.Client.Outer4, vip6: w.Client.Outer6} {
				all := w.open(40, protocol, vip)
				if len(all["node1"]) < 8 || len(all["node2"]) < 8 {
					t.Errorf("%s %s: %d and %d connections, want about 20 each", protocol, vip, len(all["node1"]), len(all["node2"]))
				}
				for _, c := range flatten(all) {
					if c.client != client.String() {
						t.Fatalf("%s %s, answers %s: the node sees client %s, want %s", protocol, vip, via, c.client, client)
					}
				}
			}
		}
		w.must(w.AnswerVia(w.Edges[0]))
	}
}

func TestDirectDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 2)
	pool := w.listen("tcp", vip4, func(_ *config.Listener, p *config.Pool) { p.Drain = time.Hour })
	w.apply()
	before := w.open(40, "tcp", vip4)
	member := pool.Members[1]
	for _, step := range []struct {
		name   string
		change func()
	}{
		{"draining", func() { pool.Members[1].Draining = true }},
		{"gone", func() { pool.Members = pool.Members[:1] }},
	} {
		step.change()
		w.apply()
		if n := broken(flatten(before)...); n > 0 {
			t.Errorf("member is %s: %d of 40 connections broke", step.name, n)
		}
		after := w.open(40, "tcp", vip4)
		if n := len(after["node2"]); n > 0 {
			t.Errorf("member is %s: it got %d of 40 new connections", step.name, n)
		}
	}
	pool.Members = append(pool.Members, member)
	w.apply()
	if n := broken(flatten(before)...); n > 0 {
		t.Errorf("member is back: %d of 40 connections broke", n)
	}

	pool.Drain = 0
	pool.Members = pool.Members[:1]
	w.apply()
	if n := broken(before["node1"]...); n > 0 {
		t.Errorf("member is gone without drain: %d connections of the other broke", n)
	}
	if n := broken(before["node2"]...); n != len(before["node2"]) {
		t.Errorf("member is gone without drain: %d of its %d connections broke", n, len(before["node2"]))
	}
}

func TestDirectNodeLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 3)
	w.listen("tcp", vip4, nil)
	w.listen("udp", vip4, nil)
	w.apply()
	tcp, udp := w.open(60, "tcp", vip4), w.open(30, "udp", vip4)
	w.must(w.Nodes[2].Cut())
	w.down["node3"] = true
	w.apply()
	others := append(append(tcp["node1"], tcp["node2"]...), append(udp["node1"], udp["node2"]...)...)
	if n := broken(others...); n > 0 {
		t.Errorf("%d of %d connections of the other nodes broke", n, len(others))
	}
	for _, c := range udp["node3"] {
		c.node = ""
		if err := c.exchange(); err != nil {
			t.Errorf("a flow of the lost node did not move: %v", err)
		}
	}
	// They are reset at once: the other nodes do not know them.
	start := time.Now()
	if n := broken(tcp["node3"]...); n != len(tcp["node3"]) || time.Since(start) > time.Second {
		t.Errorf("%d of %d connections of the lost node broke in %v", n, len(tcp["node3"]), time.Since(start))
	}
	w.open(30, "tcp", vip4)
}

func TestDirectEdgeLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 3)
	w.listen("tcp", vip4, nil)
	w.listen("tcp", vip6, nil)
	// The second edge meets the members in another order, and has other marks.
	w.applyTo(w.edges[0])
	for _, pool := range w.config.Pools {
		pool.Members[0], pool.Members[2] = pool.Members[2], pool.Members[0]
	}
	w.applyTo(w.edges[1])
	all := append(flatten(w.open(50, "tcp", vip4)), flatten(w.open(50, "tcp", vip6))...)
	w.must(w.edges[0].Cut())
	w.must(w.RouteTo(w.edges[1].Machine))
	if n := broken(all...); n > 0 {
		t.Errorf("%d of 100 connections broke", n)
	}
}

func TestDirectAffinity(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 3)
	for _, vip := range []netip.Addr{vip4, vip6} {
		w.listen("tcp", vip, func(_ *config.Listener, p *config.Pool) { p.Algorithm, p.Drain = cloudv1.AlgorithmSourceIP, time.Hour })
	}
	w.apply()
	for i, vip := range []netip.Addr{vip4, vip6} {
		pool := &w.config.Pools[i]
		first, err := w.dial("tcp", vip)
		w.must(err)
		same := func(when, node string) {
			t.Helper()
			if all := w.open(15, "tcp", vip); len(all) != 1 || len(all[node]) != 15 {
				t.Errorf("%s %s: 15 connections went to %d nodes, %d to %s", vip, when, len(all), len(all[node]), node)
			}
		}
		same("at first", first.node)

		// The table changes, and the client stays where it is.
		at := 0
		for pool.Members[at].Key == first.node {
			at++
		}
		other := pool.Members[at]
		pool.Members = append(pool.Members[:at:at], pool.Members[at+1:]...)
		w.apply()
		same("without another node", first.node)
		pool.Members = append(pool.Members, other)
		w.apply()
		same("with the other node again", first.node)

		// Its node drains: connections stay, new ones go to one other node.
		for j := range pool.Members {
			pool.Members[j].Draining = pool.Members[j].Key == first.node
		}
		w.apply()
		w.must(first.exchange())
		second, err := w.dial("tcp", vip)
		w.must(err)
		if second.node == first.node {
			t.Errorf("%s: the draining node got a new connection", vip)
		}
		same("after the drain", second.node)
	}
}

// Edges that share the traffic of a client agree on its member, even if one of them knew other members before, or has
// seen the client before it had affinity.
func TestDirectAffinityOfEdges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 3)
	w.must(w.Client.Sysctl("net.ipv4.fib_multipath_hash_policy", "1"))
	pool := w.listen("tcp", vip4, nil)
	w.apply()
	old := flatten(w.open(60, "tcp", vip4))
	pool.Algorithm = cloudv1.AlgorithmSourceIP
	w.apply()
	same := func(when string) string {
		t.Helper()
		all := w.open(30, "tcp", vip4)
		if len(all) != 1 {
			t.Errorf("%s: connections of one client went to %d nodes", when, len(all))
		}
		for node := range all {
			return node
		}
		return ""
	}
	if n := broken(old...); n > 0 {
		t.Errorf("%d of %d older connections broke", n, len(old))
	}
	node := same("after connections without affinity")

	w.down[node] = true
	w.applyTo(w.edges[0])
	w.open(30, "tcp", vip4)
	delete(w.down, node)
	w.applyTo(w.edges[0])
	if now := same("after an edge did without its node"); now != node {
		t.Errorf("the client moved from %s to %s", node, now)
	}
}

func TestDirectSources(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1)
	w.listen("tcp", vip4, nil)
	w.listen("tcp", vip6, nil)
	for name, tt := range map[string]struct {
		allowed []netip.Prefix
		works   bool
	}{
		"all":     {nil, true},
		"none":    {[]netip.Prefix{}, false},
		"client":  {prefixes("10.0.0.0/8", "10.1.0.0/16", "198.51.100.100/32", "2001:db8:198::/64"), true},
		"another": {prefixes("10.0.0.0/8", "10.1.0.0/16", "fd00::/8", "fd55::/64"), false},
	} {
		for i := range w.config.Listeners {
			l := &w.config.Listeners[i]
			l.Allowed = nil
			if tt.allowed != nil {
				l.Allowed = []netip.Prefix{}
			}
			for _, p := range tt.allowed {
				if p.Addr().Is4() == l.Address.Is4() {
					l.Allowed = append(l.Allowed, p)
				}
			}
		}
		w.apply()
		for _, vip := range []netip.Addr{vip4, vip6} {
			conn, err := w.dialFor(300*time.Millisecond, "tcp", vip)
			if works := err == nil; works != tt.works {
				t.Errorf("%s: %s: error %v, want access %v", name, vip, err, tt.works)
			}
			if conn != nil {
				conn.Close()
			}
		}
	}
}

func prefixes(s ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, p := range s {
		list = append(list, netip.MustParsePrefix(p))
	}
	return list
}

func TestDirectRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1)
	w.listen("tcp", vip4, nil)
	w.listen("udp", vip4, nil)
	w.listen("tcp", vip6, nil)
	w.listen("udp", vip6, nil)
	// A program on the edge that listens on all addresses.
	listener, err := w.Edges[0].Listen(t.Context(), "tcp", "[::]:22")
	w.must(err)
	defer listener.Close()
	// A proxy, which the kernel knows by its sockets, and a program that has the port of one.
	w.config.Listeners = append(w.config.Listeners, config.Listener{
		LoadBalancer: "lb-2", Key: "http/81", Address: vip4, Port: 81, Protocol: "http", Engine: config.Proxy,
	})
	proxy := w.transparent("[::]:81")
	defer proxy.Close()
	w.config.Listeners = append(w.config.Listeners, config.Listener{
		LoadBalancer: "lb-2", Key: "tcp/22", Address: vip4, Port: 22, Protocol: "tcp", Engine: config.Proxy,
	})
	w.down["node1"] = true
	w.apply()
	conn, err := w.Client.Dial(t.Context(), "tcp", "203.0.113.9:81")
	w.must(err)
	conn.Close()
	refused := func(when string) {
		t.Helper()
		for _, vip := range []netip.Addr{vip4, vip6} {
			for _, protocol := range []string{"tcp", "udp"} {
				if _, err := w.dial(protocol, vip); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("%s: %s %s: error %v, want connection refused", when, protocol, vip, err)
				}
			}
			if conn, err := w.Client.Dial(t.Context(), "tcp", netip.AddrPortFrom(vip, 22).String()); err == nil {
				conn.Close()
				t.Errorf("%s: %s: a client reaches port 22 of the edge", when, vip)
			}
		}
	}
	refused("no healthy member")
	w.config.Listeners = nil
	w.apply()
	refused("no listener")
	w.config.Addresses = nil
	w.apply()
	if out, err := w.Edges[0].Run(t.Context(), "ip", "-brief", "address", "show", "dev", "lo"); err != nil ||
		out != "lo               UNKNOWN        127.0.0.1/8 ::1/128 \n" {
		t.Errorf("addresses after all are removed: %q, error %v", out, err)
	}
}

// transparent listens on the edge as HAProxy does.
func (w *world) transparent(address string) net.Listener {
	w.t.Helper()
	var listener net.Listener
	w.must(w.Edges[0].Do(func() (err error) {
		listener, err = (&net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
			var failed error
			err := c.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_TRANSPARENT, 1) })
			return errors.Join(err, failed)
		}}).Listen(w.t.Context(), "tcp", address)
		return err
	}))
	return listener
}

func TestDirectRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 2)
	pool := w.listen("tcp", vip4, func(_ *config.Listener, p *config.Pool) { p.Drain = time.Hour })
	w.listen("udp", vip4, nil)
	w.apply()
	all := append(flatten(w.open(40, "tcp", vip4)), flatten(w.open(20, "udp", vip4))...)
	counter := w.counters(w.edges[0])["tcp/80"].Accepted

	// While no engine runs, a member leaves and the order of the others changes.
	pool.Members = pool.Members[1:]
	w.edges[0].restart()
	w.apply()
	if n := broken(all[:40]...); n > 0 {
		t.Errorf("%d of 40 connections broke", n)
	}
	if after := w.open(20, "tcp", vip4); len(after["node1"]) > 0 {
		t.Error("a member that left while no engine ran gets new connections")
	}
	if n := w.counters(w.edges[0])["tcp/80"].Accepted; n != counter+20 {
		t.Errorf("the counter went from %d to %d", counter, n)
	}

}

func TestDirectRepairs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 2)
	pool := w.listen("tcp", vip4, nil)
	w.apply()
	for _, tt := range []struct {
		command string
		// found is true if the engine finds by itself that something is wrong.
		found  bool
		change func()
	}{
		{command: "nft flush ruleset", found: true},
		{command: "nft flush ruleset", change: func() { pool.Members[0].Draining = true }},
		{command: "nft flush ruleset", change: w.edges[0].restart},
		{command: "nft flush chain inet mycloud-edge hook/raw"},
		{command: "nft flush chain inet mycloud-edge direct/lb-1/tcp/80/ipv4"},
		{command: "nft flush map inet mycloud-edge listeners4"},
		{command: "ip rule del pref 11"},
		{command: "ip link set int down; ip link set int up"},
	} {
		if _, err := w.Edges[0].Run(t.Context(), "sh", "-c", tt.command); err != nil {
			t.Fatal(err)
		}
		if tt.found {
			w.must(w.edges[0].Do(func() error {
				if _, err := w.edges[0].engine.Counters(t.Context()); err == nil {
					t.Errorf("%s: counters are there", tt.command)
				}
				return nil
			}))
			if !w.edges[0].engine.Due() {
				t.Errorf("%s: the engine did not notice", tt.command)
			}
		}
		if tt.change != nil {
			tt.change()
		}
		w.apply()
		w.open(20, "tcp", vip4)
	}
	w.must(os.WriteFile(filepath.Join(w.edges[0].dir, "kernel.json"), []byte("{"), 0o600))
	w.edges[0].restart()
	w.apply()
	w.open(5, "tcp", vip4)
}

// Without a router that sends packets to the edge, clients find it by the addresses themselves.
func TestDirectOnTheNetworkOfClients(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1)
	w.must(w.RouteTo())
	for _, pool := range []netip.Prefix{edgenet.Pool4, edgenet.Pool6} {
		if _, err := w.Client.Run(t.Context(), "ip", "route", "add", pool.String(), "dev", edgenet.Outer); err != nil {
			t.Fatal(err)
		}
	}
	w.edges[0].addresses.Interface = edgenet.Outer
	w.listen("tcp", vip4, nil)
	w.listen("tcp", vip6, nil)
	w.apply()
	w.open(3, "tcp", vip4)
	w.open(3, "tcp", vip6)
}

// Client, edge and nodes may be on one network.
func TestDirectOneInterface(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 2)
	w.must(w.RouteTo())
	for pool, via := range map[netip.Prefix]netip.Addr{
		edgenet.Pool4: w.Edges[0].Inner4, edgenet.Pool6: w.Edges[0].Inner6,
	} {
		if _, err := w.Client.Run(t.Context(), "ip", "route", "add", pool.String(), "via", via.String()); err != nil {
			t.Fatal(err)
		}
	}
	w.listen("tcp", vip4, nil)
	w.listen("tcp", vip6, nil)
	w.apply()
	for _, vip := range []netip.Addr{vip4, vip6} {
		all := w.open(20, "tcp", vip)
		if len(all) != 2 {
			t.Errorf("%s: connections went to %d nodes, want 2", vip, len(all))
		}
		if n := broken(flatten(all)...); n > 0 {
			t.Errorf("%s: %d connections broke", vip, n)
		}
	}
}

func TestRefusedByNftables(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1)
	w.listen("tcp", vip4, nil)
	w.listen("tcp", vip6, nil)
	for range 6 {
		w.listen("udp", vip4, func(l *config.Listener, _ *config.Pool) {
			l.LoadBalancer, l.Port = fmt.Sprint("lb-", len(w.config.Listeners)), uint16(100+len(w.config.Listeners))
		})
	}
	bad := &w.config.Listeners[0]
	bad.IdleTimeout = math.MaxInt64
	apply := func() []cloudv1.EdgeFault {
		var faults []cloudv1.EdgeFault
		w.must(w.edges[0].Do(func() (err error) {
			faults, err = w.edges[0].engine.Apply(t.Context(), w.config, func(config.PoolID, string) bool { return true })
			return errors.Join(err, w.edges[0].answer(t.Context(), w.config.Addresses))
		}))
		return faults
	}
	if faults := apply(); len(faults) != 1 || faults[0].LoadBalancerID != "lb-1" || faults[0].ListenerKey != "tcp/80" {
		t.Errorf("faults %v, want one of the listener", faults)
	}
	w.open(2, "tcp", vip6)
	bad.IdleTimeout = 0
	if faults := apply(); len(faults) > 0 {
		t.Errorf("faults %v, want none", faults)
	}
	w.open(2, "tcp", vip4)

	// A listener that cannot be changed stays as it was.
	bad.IdleTimeout = math.MaxInt64
	if faults := apply(); len(faults) != 1 {
		t.Errorf("faults %v, want one", faults)
	}
	w.open(2, "tcp", vip4)
}

func TestDirectUpdatesLoseNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 3)
	w.listen("udp", vip4, func(_ *config.Listener, p *config.Pool) { p.Drain = time.Hour })
	w.listen("tcp", vip4, nil)
	w.apply()
	w.updateUnderTraffic(100)
}

func TestDirectMaxQPS(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.listen("tcp", vip4, func(l *config.Listener, _ *config.Pool) { l.MaxQPS = 2000 })
	w.listen("udp", vip4, func(l *config.Listener, _ *config.Pool) { l.MaxQPS = 100 })
	w.apply()
	for _, tt := range []struct {
		protocol string
		limit    float64
		offered  int
	}{{"tcp", 2000, 3500}, {"udp", 100, 200}} {
		w.maxQPS(tt.protocol, tt.limit, tt.offered)
	}
}

// maxQPS requires that of the flows offered, as many as the limit are accepted over 5 seconds, from the first on.
func (w *world) maxQPS(protocol string, limit float64, offered int) {
	w.t.Helper()
	for attempt := range 3 {
		before := w.counters(w.edges[0])[protocol+"/80"]
		start := time.Now()
		pause := w.offer(protocol, offered, 20000+attempt*2000, 5*time.Second)
		elapsed := time.Since(start).Seconds()
		after := w.counters(w.edges[0])[protocol+"/80"]
		accepted := float64(after.Accepted-before.Accepted) / elapsed
		refused := float64(after.Refused-before.Refused) / elapsed
		w.t.Logf("%s: limit %.0f, offered %.0f/s with pauses up to %v, accepted %.1f/s",
			protocol, limit, accepted+refused, pause, accepted)
		if accepted > limit*1.02 {
			w.t.Errorf("%s: accepted %.1f/s, want at most %.0f and 2 %%", protocol, accepted, limit)
		}
		if accepted >= limit*0.98 {
			return
		}
		// A limit does not make up for long pauses.
		if pause < 50*time.Millisecond {
			w.t.Errorf("%s: accepted %.1f/s, want at least %.0f less 2 %%", protocol, accepted, limit)
			return
		}
	}
	w.t.Logf("%s: the machine is too busy to offer traffic steadily", protocol)
}

// offer makes the client start new flows at a steady rate, from ports from port on, and returns its longest pause.
func (w *world) offer(protocol string, perSecond, port int, length time.Duration) (pause time.Duration) {
	w.t.Helper()
	const tick = 5 * time.Millisecond
	address := netip.AddrPortFrom(vip4, 80)
	start := time.Now()
	sent := 0
	w.must(w.Client.Do(func() error {
		last := time.Duration(0)
		for elapsed := time.Duration(0); elapsed < length; elapsed = time.Since(start) {
			pause, last = max(pause, elapsed-last), elapsed
			for due := int(elapsed.Seconds() * float64(perSecond)); sent < due; sent++ {
				if err := newFlow(protocol, address, port+sent); err != nil {
					return err
				}
			}
			time.Sleep(tick)
		}
		return nil
	}))
	return pause
}

// newFlow sends the first packet of a flow. A packet of UDP is the first of its port only.
func newFlow(protocol string, to netip.AddrPort, port int) error {
	if protocol == "udp" {
		conn, err := net.DialUDP("udp", &net.UDPAddr{Port: port}, net.UDPAddrFromAddrPort(to))
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte("who\n"))
		return err
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer syscall.Close(fd)
	err = syscall.Connect(fd, &syscall.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())})
	if errors.Is(err, syscall.EINPROGRESS) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	return err
}
