package haproxy

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
)

func tcpMonitor() *config.Monitor {
	return &config.Monitor{Type: "tcp", Interval: 300 * time.Millisecond, Timeout: 200 * time.Millisecond, Rise: 2, Fall: 2}
}

// states returns the states of the members by their keys.
func states(t testing.TB, e *Engine) map[string]cloudv1.MemberHealth {
	t.Helper()
	health, err := e.Health(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]cloudv1.MemberHealth{}
	for _, h := range health {
		found[h.PoolKey+" "+h.MemberKey] = h
	}
	return found
}

func TestMembersChangeWithoutReload(t *testing.T) {
	e := newEngine(t, nil)
	l := listener(t, "tcp", "tcp/80")
	a, b := echo(t, "a"), member(t, "b")
	p := pool("tcp/80", a)
	p.Monitor, p.Drain = tcpMonitor(), time.Minute
	c := &config.Config{Listeners: []config.Listener{l}, Pools: []config.Pool{p}}
	apply(t, e, c)
	first := worker(t, e)
	long := dial(t, l, "")
	if !says(long, "x") {
		t.Fatal("no answer")
	}

	// The first member leaves; its connection stays until its time is over.
	c.Pools[0].Members = []config.Member{b}
	apply(t, e, c)
	for range 10 {
		if status, body := get(t, url(l)); status != 200 || body != "b" {
			t.Fatalf("answer is %d %q", status, body)
		}
	}
	if !says(long, "y") {
		t.Error("the connection of a member that leaves is broken")
	}
	if err := e.supervise(t.Context()); err != nil || len(e.leaving) != 1 {
		t.Fatalf("%d servers are leaving, error %v", len(e.leaving), err)
	}
	for at := range e.leaving {
		e.leaving[at] = time.Now()
	}
	eventually(t, 2*time.Second, "the server is removed", func() bool {
		return e.supervise(t.Context()) == nil && len(e.leaving) == 0
	})
	if says(long, "z") {
		t.Error("the connection goes on after the time to drain")
	}
	servers, err := e.servers(t.Context(), first)
	if err != nil || len(servers[e.shown.Load().plan.Backends[0].Name]) != 1 {
		t.Errorf("servers are %v, error %v", servers, err)
	}

	// It returns at another port.
	c.Pools[0].Members = []config.Member{echo(t, "a")}
	apply(t, e, c)
	if !says(dial(t, l, ""), "x") {
		t.Error("the member that has moved does not answer")
	}
	eventually(t, 3*time.Second, "the member is probed", func() bool {
		return states(t, e)["tcp/80 a"].State == cloudv1.OperatingOnline
	})
	if worker(t, e) != first {
		t.Error("a change of members reloads HAProxy")
	}
}

func TestMembersReturnWhileTheyLeave(t *testing.T) {
	e := newEngine(t, nil)
	l := listener(t, "http", "tcp/80")
	a := member(t, "a")
	p := pool("tcp/80", a)
	p.Monitor = tcpMonitor()
	c := &config.Config{Listeners: []config.Listener{l}, Pools: []config.Pool{p}}
	apply(t, e, c)
	if status, _ := get(t, url(l)); status != 200 {
		t.Fatalf("answer is %d", status)
	}
	// As if the server could not be deleted yet, because a connection to it is about to end.
	at := place{e.shown.Load().plan.Backends[0].Name, e.shown.Load().plan.Backends[0].Servers[0].Name}
	for _, command := range []string{"set server " + at.String() + " weight 0", "set server " + at.String() + " state maint"} {
		if err := e.haproxy.Do(t.Context(), worker(t, e), command); err != nil {
			t.Fatal(err)
		}
	}
	e.leaving[at] = time.Now()
	apply(t, e, c)
	if status, body := get(t, url(l)); status != 200 || body != "a" || len(e.leaving) != 0 {
		t.Errorf("answer is %d %q", status, body)
	}
	eventually(t, 3*time.Second, "the member is probed", func() bool {
		return states(t, e)["tcp/80 a"].State == cloudv1.OperatingOnline
	})

	// The server goes although HAProxy keeps idle connections to it.
	c.Pools[0].Members = nil
	apply(t, e, c)
	eventually(t, 5*time.Second, "the server is removed", func() bool {
		return e.supervise(t.Context()) == nil && len(e.leaving) == 0
	})
	if status, _ := get(t, url(l)); status != 503 {
		t.Errorf("answer without members is %d", status)
	}
}

func TestDeadMembersAreOutAndStayOutOverReloads(t *testing.T) {
	e := newEngine(t, nil)
	dying, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := pool("tcp/80", member(t, "a"))
	web.Monitor = &config.Monitor{
		Type: "http", Port: web.Members[0].Port, Path: "/healthz", ExpectedCodes: "200", Interval: 300 * time.Millisecond,
		Timeout: 200 * time.Millisecond, Rise: 1, Fall: 2,
	}
	kernel := pool("tcp/81", memberAt("b", dying.Addr()), member(t, "c"), member(t, "d"))
	kernel.Monitor, kernel.Members[2].Draining = tcpMonitor(), true
	unprobed := pool("tcp/82", config.Member{Key: "e", Address: web.Members[0].Address, Weight: 1})
	c := &config.Config{
		Listeners: []config.Listener{listener(t, "http", "tcp/80")},
		Pools:     []config.Pool{web, kernel, unprobed},
	}
	apply(t, e, c)
	eventually(t, 2*time.Second, "all are online", func() bool {
		s := states(t, e)
		return s["tcp/80 a"].State == "online" && s["tcp/81 b"].State == "online" && s["tcp/81 c"].State == "online" &&
			s["tcp/81 d"].State == "draining" && len(s) == 4
	})

	dying.Close()
	start := time.Now()
	eventually(t, 2*300*time.Millisecond+time.Second, "the dead member is offline", func() bool {
		return states(t, e)["tcp/81 b"].State == cloudv1.OperatingOffline
	})
	t.Logf("offline after %v", time.Since(start))
	if detail := states(t, e)["tcp/81 b"].Detail; !strings.Contains(detail, "Connection refused") {
		t.Errorf("detail is %q", detail)
	}

	before := worker(t, e)
	c.Listeners = append(c.Listeners, listener(t, "http", "tcp/83"))
	c.Listeners[1].Pool = c.Listeners[0].Pool
	apply(t, e, c)
	if worker(t, e) == before {
		t.Fatal("there was no reload")
	}
	if s := states(t, e); s["tcp/81 b"].State != cloudv1.OperatingOffline || s["tcp/80 a"].State != cloudv1.OperatingOnline {
		t.Errorf("after the reload, states are %+v", s)
	}

	c.Pools[0].Monitor.ExpectedCodes = "404"
	apply(t, e, c)
	eventually(t, 3*time.Second, "the wrong status takes the member out", func() bool {
		h := states(t, e)["tcp/80 a"]
		return h.State == cloudv1.OperatingOffline && strings.Contains(h.Detail, "200")
	})
}

// A member that its health monitor has taken out is back when there is no monitor any more: nothing else would find it well.
func TestDeadMemberWithoutMonitor(t *testing.T) {
	e := newEngine(t, nil)
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	l, p := listener(t, "http", "tcp/80"), pool("tcp/80", member(t, "a"))
	p.Monitor = tcpMonitor()
	p.Monitor.Port = netip.MustParseAddrPort(dead.Addr().String()).Port()
	apply(t, e, &config.Config{Listeners: []config.Listener{l}, Pools: []config.Pool{p}})
	eventually(t, 10*time.Second, "the member is offline", func() bool {
		return states(t, e)["tcp/80 a"].State == cloudv1.OperatingOffline
	})
	p.Monitor = nil
	apply(t, e, &config.Config{Listeners: []config.Listener{l}, Pools: []config.Pool{p}})
	if status, _ := get(t, url(l)); status != 200 {
		t.Errorf("the answer without a monitor is %d", status)
	}
}

// Members stay probed when one of the kinds of listeners that use their pool goes, whose backend stays without servers.
func TestHealthAfterRemovedListener(t *testing.T) {
	e := newEngine(t, nil)
	first, second := listener(t, "tcp", "tcp/80"), listener(t, "tcp", "tcp/81")
	second.Pool, second.ProxyProtocol = first.Pool, cloudv1.ProxyProtocolV1
	p := pool("tcp/80", member(t, "a"))
	p.Monitor = tcpMonitor()
	online := func(when string) {
		t.Helper()
		eventually(t, 10*time.Second, "the member is online "+when, func() bool {
			return states(t, e)["tcp/80 a"].State == cloudv1.OperatingOnline
		})
	}
	apply(t, e, &config.Config{Listeners: []config.Listener{first, second}, Pools: []config.Pool{p}})
	online("with both listeners")
	apply(t, e, &config.Config{Listeners: []config.Listener{second}, Pools: []config.Pool{p}})
	online("with one")
}

// What a worker has is found by an agent that starts.
func TestSizes(t *testing.T) {
	e := newEngine(t, nil)
	probed, plain := pool("tcp/80", member(t, "a"), member(t, "b")), pool("tcp/81", member(t, "c"))
	probed.Monitor = tcpMonitor()
	apply(t, e, &config.Config{
		Listeners: []config.Listener{listener(t, "tcp", "tcp/80"), listener(t, "http", "tcp/81")}, Pools: []config.Pool{probed, plain},
	})
	sizes, err := e.sizes(t.Context(), worker(t, e))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(e.running.Backends, sizes); d != "" {
		t.Errorf("planned, and what the worker has (-want +got):\n%s", d)
	}
}
