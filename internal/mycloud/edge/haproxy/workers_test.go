package haproxy

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"quaymaster.dev/internal/mycloud/edge/config"
)

// memory returns the memory of the master and the workers in kB, that which they share counted once, as if the machine had
// no other HAProxy: what they have written to, and the program.
func memory(t testing.TB, e *Engine) int {
	t.Helper()
	p, err := e.haproxy.Running(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	written, program := 0, 0
	for _, pid := range append(p.Old, p.Current, master(t, e)) {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			t.Fatal(err)
		}
		kB := map[string]int{}
		for line := range strings.Lines(string(content)) {
			if fields := strings.Fields(line); len(fields) == 3 && fields[2] == "kB" {
				kB[fields[0]], _ = strconv.Atoi(fields[1])
			}
		}
		if kB["Pss_Anon:"] == 0 {
			t.Fatalf("no memory in %q", content)
		}
		written, program = written+kB["Pss_Anon:"], max(program, kB["Rss:"]-kB["Anonymous:"])
	}
	return written + program
}

// held returns a connection to a listener that is used.
func held(t testing.TB, l config.Listener) net.Conn {
	t.Helper()
	connection := dial(t, l, "")
	if !says(connection, "x") {
		t.Fatal("no answer")
	}
	return connection
}

// workers returns the number of workers.
func workers(t testing.TB, e *Engine) int {
	t.Helper()
	now, err := e.haproxy.Running(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return 1 + len(now.Old)
}

// later lets time pass since the reloads.
func later(e *Engine, d time.Duration) {
	for worker, r := range e.left {
		r.at = r.at.Add(-d)
		e.left[worker] = r
	}
}

// atOnce has the reloads have been a moment ago, however slow the machine is.
func atOnce(e *Engine) {
	for worker, r := range e.left {
		r.at = time.Now()
		e.left[worker] = r
	}
}

// However often a load balancer changes, and however long connections go on, HAProxy's workers are few. Others do not
// wait for them, and their reloads serve those that do.
func TestChangesUnderHeldConnections(t *testing.T) {
	e := newEngine(t, nil)
	l, p := other(t)
	tcp, changing := listener(t, "tcp", "tcp/81"), listener(t, "http", "tcp/82")
	c := &config.Config{
		Listeners: []config.Listener{tcp, changing, l},
		Pools:     []config.Pool{pool("tcp/81", echo(t, "a")), pool("tcp/82", member(t, "b")), p},
	}
	apply(t, e, c)
	// There are as many connections before and after, and those that stay are in every worker.
	connections, closing := []net.Conn{held(t, tcp)}, make([]net.Conn, 100)
	for i := range closing {
		closing[i] = held(t, tcp)
	}
	start := memory(t, e)
	fault, most := "", 0
	for i := range 100 {
		closing[i].Close()
		connections = append(connections, held(t, tcp))
		c.Listeners[1].IdleTimeout += time.Second
		atOnce(e)
		faults, err := e.Apply(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range faults {
			if fault = f.Detail; f.ListenerKey != "tcp/82" || !f.Pending {
				t.Fatalf("fault %+v", f)
			}
		}
		serves(t, changing)
		most = max(most, workers(t, e))
	}
	grown := float64(memory(t, e)) / float64(start)
	t.Logf("%d workers, %.2f times the memory; fault: %s", most, grown, fault)
	if most > 4 || grown > 1.5 || fault == "" {
		t.Errorf("%d workers, want at most 4; %.2f times the memory, want at most 1.5", most, grown)
	}

	// Nor do clients get in for longer.
	before := workers(t, e)
	c.Listeners[0].Allowed = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	apply(t, e, c)
	if _, err := net.DialTimeout("tcp", address(tcp), time.Second); err != nil || workers(t, e) != before+1 {
		t.Errorf("error %v, %d workers, want %d", err, workers(t, e), before+1)
	}
	c.Listeners[1].IdleTimeout += time.Second
	// What needs no reload does not wait.
	c.Pools[1].Members = []config.Member{member(t, "c")}
	apply(t, e, c, "tcp/82")
	if _, body := get(t, url(changing)); body != "c" {
		t.Errorf("the members of a load balancer that waits are %s", body)
	}
	// Another load balancer gets what it wants, and with it the one that waits.
	added := listener(t, "http", "tcp/90")
	added.LoadBalancer, added.Pool = l.LoadBalancer, l.Pool
	c.Listeners = append(c.Listeners, added)
	eventually(t, 5*time.Second, "the new listener is served", func() bool {
		faults, err := e.Apply(t.Context(), c)
		return err == nil && len(faults) == 0
	})
	serves(t, added)
	for i, connection := range connections {
		if !says(connection, "y") {
			t.Errorf("connection %d is broken", i)
		}
	}
	// Its next change takes its turn, however long the connections go on, and at once if they have ended.
	connections = append(connections, held(t, tcp))
	c.Listeners[1].IdleTimeout += time.Second
	atOnce(e)
	apply(t, e, c, "tcp/82")
	later(e, 8*ownPause)
	apply(t, e, c)
	c.Listeners[1].IdleTimeout += time.Second
	atOnce(e)
	apply(t, e, c, "tcp/82")
	for _, connection := range connections {
		connection.Close()
	}
	eventually(t, 10*time.Second, "the change is no longer held up", func() bool {
		faults, err := e.Apply(t.Context(), c)
		return err == nil && len(faults) == 0
	})
}

// New load balancers share reloads, the more the more connections outlast them, and all of them are served.
func TestManyNewLoadBalancersUnderHeldConnections(t *testing.T) {
	e := newEngine(t, nil)
	tcp, backend := listener(t, "tcp", "tcp/81"), member(t, "b")
	c := &config.Config{Listeners: []config.Listener{tcp}, Pools: []config.Pool{pool("tcp/81", echo(t, "a"))}}
	apply(t, e, c)
	var connections []net.Conn
	for i := range 30 {
		connections = append(connections, held(t, tcp))
		l, p := listener(t, "http", "tcp/80"), pool("tcp/80", backend)
		l.LoadBalancer, l.Address = fmt.Sprintf("lb-new-%d", i), netip.AddrFrom4([4]byte{127, 0, 1, byte(i + 1)})
		l.Pool.LoadBalancer, p.ID.LoadBalancer = l.LoadBalancer, l.LoadBalancer
		c.Listeners, c.Pools = append(c.Listeners, l), append(c.Pools, p)
		atOnce(e)
		if _, err := e.Apply(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	later(e, time.Minute)
	apply(t, e, c)
	if n := workers(t, e); n > 4 {
		t.Errorf("%d workers, want at most 4", n)
	}
	// What changes for all is not what each of them has changed.
	for range 3 {
		connections = append(connections, held(t, tcp))
		later(e, time.Minute)
		for i := range c.Listeners {
			c.Listeners[i].IdleTimeout += time.Hour
		}
		apply(t, e, c)
	}
	later(e, time.Minute)
	c.Listeners[1].IdleTimeout += time.Second
	apply(t, e, c)
	for _, l := range c.Listeners[1:] {
		serves(t, l)
	}
	for i, connection := range connections {
		if !says(connection, "y") {
			t.Errorf("connection %d is broken", i)
		}
	}
}

// However many old workers the changes of others have left, those of a load balancer wait for seconds at the most.
func TestOldWorkersOfOthers(t *testing.T) {
	e := newEngine(t, nil)
	l, p := other(t)
	tcp, changing := listener(t, "tcp", "tcp/81"), listener(t, "http", "tcp/82")
	c := &config.Config{
		Listeners: []config.Listener{tcp, changing, l},
		Pools:     []config.Pool{pool("tcp/81", echo(t, "a")), pool("tcp/82", member(t, "b")), p},
	}
	apply(t, e, c)
	for range 12 {
		held(t, tcp)
		c.Listeners[1].IdleTimeout += time.Second
		later(e, 10*time.Hour)
		apply(t, e, c)
	}
	if n := workers(t, e); n != 13 {
		t.Fatalf("%d workers, want 13", n)
	}
	held(t, tcp)
	c.Listeners[2].IdleTimeout += time.Second
	atOnce(e)
	apply(t, e, c, l.Key)
	later(e, 4*time.Second)
	apply(t, e, c)
}

// A load balancer of which HAProxy refuses a listener, again and again, is not the cause of the reloads that others need.
func TestRefusedListenerCausesNoReload(t *testing.T) {
	e := newEngine(t, nil)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	l, p := other(t)
	l.Port = uint16(taken.Addr().(*net.TCPAddr).Port)
	tcp, changing := listener(t, "tcp", "tcp/81"), listener(t, "http", "tcp/82")
	c := &config.Config{
		Listeners: []config.Listener{tcp, changing, l},
		Pools:     []config.Pool{pool("tcp/81", echo(t, "a")), pool("tcp/82", member(t, "b")), p},
	}
	apply(t, e, c, l.Key)
	for range 20 {
		held(t, tcp)
		c.Listeners[1].IdleTimeout += time.Second
		later(e, 5*time.Second)
		if _, err := e.Apply(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if n := workers(t, e); n > 3 {
		t.Errorf("%d workers, want at most 3", n)
	}
}

// A listener that goes, and returns, needs no new worker.
func TestRemovalNeedsNoReload(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil)
	l, p := other(t)
	web := listener(t, "http", "tcp/80")
	c := &config.Config{Listeners: []config.Listener{web, l}, Pools: []config.Pool{pool("tcp/80", member(t, "a")), p}}
	apply(t, e, c)
	first := worker(t, e)
	for range 3 {
		apply(t, e, &config.Config{Listeners: c.Listeners[1:], Pools: c.Pools[1:]})
		if connection, err := net.Dial("tcp", address(web)); err == nil {
			connection.Close()
			t.Error("a listener that was removed accepts connections")
		}
		if served, err := e.Serves(t.Context()); err != nil || len(served) != 1 {
			t.Errorf("served are %v, error %v", served, err)
		}
		serves(t, l)
		apply(t, e, c)
		serves(t, web)
		serves(t, l)
	}
	if worker(t, e) != first {
		t.Error("there was a reload")
	}
	// Nor does it after reloads for the sake of others.
	more := c.Listeners[0]
	more.Key, more.Port = "tcp/70", freePort(t)
	c.Listeners = append(c.Listeners, more)
	apply(t, e, c)
	for range 3 {
		c.Listeners[1].IdleTimeout += time.Second
		apply(t, e, &config.Config{Listeners: c.Listeners[1:], Pools: c.Pools})
		if connection, err := net.Dial("tcp", address(web)); err == nil {
			connection.Close()
			t.Error("a listener that was removed accepts connections after a reload")
		}
		serves(t, more)
		serves(t, c.Listeners[1])
		reloaded := worker(t, e)
		apply(t, e, c)
		serves(t, web)
		if worker(t, e) != reloaded {
			t.Error("there was a reload")
		}
	}
	c.Listeners = c.Listeners[:2]
	// Its port is free for another one.
	c.Listeners[0].LoadBalancer, c.Listeners[0].Key, c.Listeners[0].Pool = "lb-2", "tcp/99", l.Pool
	apply(t, e, c)
	serves(t, c.Listeners[0])

	// An agent that starts does not take one that was removed for one that is served.
	apply(t, e, &config.Config{Listeners: c.Listeners[1:], Pools: c.Pools[1:]})
	restarted := engineIn(t, e.Dir, e.Binary, nil)
	apply(t, restarted, c)
	serves(t, c.Listeners[0])
}

// A reload when an agent starts is for the sake of no load balancer: none waits for it, although connections go on.
func TestStartDelaysNoChange(t *testing.T) {
	e := newEngine(t, nil)
	tcp, removed := listener(t, "tcp", "tcp/81"), listener(t, "tcp", "tcp/82")
	pools := []config.Pool{pool("tcp/81", echo(t, "a")), pool("tcp/82", echo(t, "b"))}
	both := &config.Config{Listeners: []config.Listener{tcp, removed}, Pools: pools}
	apply(t, e, both)
	connection := held(t, tcp)
	first := worker(t, e)
	apply(t, e, &config.Config{Listeners: both.Listeners[:1], Pools: pools[:1]})
	restarted := engineIn(t, e.Dir, e.Binary, nil)
	apply(t, restarted, &config.Config{Listeners: both.Listeners[:1], Pools: pools[:1]})
	if worker(t, e) == first {
		t.Fatal("there was no reload")
	}
	apply(t, restarted, both)
	if next := held(t, removed); !says(connection, "x") || !says(next, "x") {
		t.Error("a connection is broken")
	}
}

// Limits, which change for all listeners when an edge comes or goes, are changed without a reload.
func TestLimitsNeedNoReload(t *testing.T) {
	e := newEngine(t, nil)
	l, p := other(t)
	tcp := listener(t, "tcp", "tcp/81")
	tcp.MaxConnections, tcp.MaxQPS, l.MaxQPS = 2, 1000, 10
	c := &config.Config{Listeners: []config.Listener{tcp, l}, Pools: []config.Pool{pool("tcp/81", echo(t, "a")), p}}
	apply(t, e, c)
	first := worker(t, e)
	// passes reports whether a listener accepts one more connection.
	passes := func() bool {
		connection, err := net.Dial("tcp", address(tcp))
		if err != nil {
			return false
		}
		t.Cleanup(func() { connection.Close() })
		return says(connection, "x")
	}
	// full checks that so many more connections pass, and no other. HAProxy counts one that it has refused for a moment.
	full := func(more int) {
		t.Helper()
		for range more {
			eventually(t, 5*time.Second, "a connection within the limit passes", passes)
		}
		if passes() {
			t.Error("a connection beyond the limit passes")
		}
	}
	full(2)
	c.Listeners[0].MaxConnections = 3
	apply(t, e, c)
	full(1)
	served := func() (n int) {
		for range 40 {
			if status, _ := get(t, url(l)); status == 200 {
				n++
			}
		}
		return n
	}
	few := served()
	c.Listeners[1].MaxQPS = 1000
	apply(t, e, c)
	if all := served(); few == 40 || all != 40 {
		t.Errorf("%d of 40 requests were served with a low limit, %d with a high one", few, all)
	}
	if worker(t, e) != first {
		t.Error("there was a reload")
	}
	// A worker and an agent that start have the limits of now.
	c.Listeners[1].IdleTimeout = time.Hour
	apply(t, e, c)
	restarted := engineIn(t, e.Dir, e.Binary, nil)
	c.Listeners[0].MaxConnections = 1
	apply(t, restarted, c)
	if worker(t, e) == first {
		t.Error("there was no reload")
	}
	// For a moment, the worker before may still accept connections; it has as many as it may.
	full(1)
}
