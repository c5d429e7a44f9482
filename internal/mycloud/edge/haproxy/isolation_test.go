package haproxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/internal/mycloud/edge/haproxy/plan"
)

// other returns a listener and its pool of the load balancer lb-2, which must not notice what lb-1 does.
func other(t testing.TB) (config.Listener, config.Pool) {
	t.Helper()
	l, p := listener(t, "http", "tcp/80"), pool("tcp/80", member(t, "other"))
	l.LoadBalancer, l.Pool.LoadBalancer, p.ID.LoadBalancer = "lb-2", "lb-2", "lb-2"
	return l, p
}

// serves requires that a listener of http answers.
func serves(t testing.TB, l config.Listener) {
	t.Helper()
	if status, _ := get(t, url(l)); status != 200 {
		t.Errorf("listener %s of %s answers %d", l.Key, l.LoadBalancer, status)
	}
}

// counted has the engine run HAProxy by a script that counts checks, and returns how many there were.
func counted(t testing.TB, e *Engine) func() int {
	t.Helper()
	wrapper, list := e.haproxy.File("counting.sh"), e.haproxy.File("checks")
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *' -c '*) echo x >>%s;; esac\nexec %s \"$@\"\n", list, e.Binary)
	if err := os.WriteFile(wrapper, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	e.haproxy.Binary = wrapper
	return func() int {
		content, _ := os.ReadFile(list)
		return strings.Count(string(content), "x")
	}
}

// However many certificates HAProxy refuses, finding them takes a few checks, and other changes one.
func TestRefusedCertificatesCostOthersNothing(t *testing.T) {
	t.Parallel()
	const many = 256
	weak := keyPair(t, "a.test", 1, true)
	source := certificates{}
	e := newEngine(t, source)
	checks := counted(t, e)
	l, p := other(t)
	c := &config.Config{Listeners: []config.Listener{l}, Pools: []config.Pool{p, pool("tcp/443", member(t, "a"))}}
	var faulty []string
	for i := range many {
		id := fmt.Sprintf("cert-%03d", i)
		source[id] = weak
		refused := listener(t, "https", id)
		refused.Port, refused.Pool.Key, refused.Certificates = uint16(i+1), "tcp/443", []string{id}
		c.Listeners, faulty = append(c.Listeners, refused), append(faulty, id)
	}
	apply(t, e, c, faulty...)
	serves(t, l)
	first := checks()
	c.Listeners[0].IdleTimeout = 50 * time.Second
	faults := apply(t, e, c, faulty...)
	serves(t, l)
	t.Logf("%d checks at first, %d for the change of another listener", first, checks()-first)
	if first > 3 || checks()-first > 1 {
		t.Error("at most 3 checks at first and 1 later are necessary")
	}
	if detail := faults[7].Detail; !strings.Contains(detail, "cert-007") || !strings.Contains(detail, "unable to load") {
		t.Errorf("a fault is %q", detail)
	}
}

// A certificate or a member that cannot be used takes no others with it.
func TestPartsOfListenersFailAlone(t *testing.T) {
	source := certificates{"good": keyPair(t, "a.test", 1, false), "weak": keyPair(t, "b.test", 2, true)}
	e := newEngine(t, source)
	l := listener(t, "https", "tcp/443")
	l.Certificates = []string{"weak", "good", "missing"}
	web := listener(t, "http", "tcp/80")
	broken := member(t, "broken")
	broken.Key, broken.Port = "broken", 0
	c := &config.Config{
		Listeners: []config.Listener{web, l},
		Pools:     []config.Pool{pool("tcp/443", member(t, "a")), pool("tcp/80", broken, member(t, "b"))},
	}
	faults := apply(t, e, c, "tcp/80", "tcp/443", "tcp/443")
	for i, want := range []string{"broken", "weak", "missing"} {
		if !strings.Contains(faults[i].Detail, want) {
			t.Errorf("fault %d is %q, want %s", i, faults[i].Detail, want)
		}
	}
	if n := serial(t, l, "a.test"); n != 1 {
		t.Errorf("the certificate is %d", n)
	}
	serves(t, web)
}

// colliding returns the keys of two members at an address whose servers have the same number.
func colliding(t testing.TB, address netip.AddrPort) (string, string) {
	t.Helper()
	// The numbers of one pool differ, so several are compared; one pool for each member would take ten times as long.
	const pools, members = 1000, 1000
	keys := map[uint32]string{}
	for i := range pools {
		p := &config.Pool{Algorithm: cloudv1.AlgorithmRoundRobin}
		for j := range members {
			p.Members = append(p.Members, config.Member{
				Key: strconv.Itoa(i*members + j), Address: address.Addr(), Port: address.Port(),
			})
		}
		for _, s := range plan.Of([]plan.Unit{{Pool: p}}, nil, plan.Running{}, nil, 1024).Backends[0].Servers {
			if keys[s.ID] != "" {
				return keys[s.ID], s.Member.Key
			}
			keys[s.ID] = s.Member.Key
		}
	}
	t.Fatal("no two numbers are the same")
	return "", ""
}

// Members whose numbers are the same follow each other, and are there together.
func TestNumbersOfMembersCollide(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil)
	l, others := other(t)
	tcp := listener(t, "tcp", "tcp/81")
	first := echo(t, "")
	second := first
	first.Key, second.Key = colliding(t, netip.AddrPortFrom(first.Address, first.Port))
	p := pool("tcp/81", first)
	p.Drain = time.Hour
	c := &config.Config{Listeners: []config.Listener{tcp, l}, Pools: []config.Pool{p, others}}
	apply(t, e, c)
	held := dial(t, tcp, "")
	if !says(held, "x") {
		t.Fatal("no answer")
	}
	for _, members := range [][]config.Member{{second}, {first, second}, {first}} {
		c.Pools[0].Members = members
		// The change of another load balancer must not be lost.
		c.Pools[1].Members = []config.Member{member(t, fmt.Sprint(len(members)))}
		apply(t, e, c)
		if !says(dial(t, tcp, ""), "y") || !says(held, "z") {
			t.Errorf("with members %v, a connection fails", members)
		}
		if status, body := get(t, url(l)); status != 200 || body != fmt.Sprint(len(members)) {
			t.Errorf("the other load balancer answers %d %q", status, body)
		}
	}
}

// A port can become occupied after it was checked. HAProxy does not run with it at all, and says so when it starts.
func TestPortIsOccupiedMeanwhile(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	l, p := other(t)
	c := &config.Config{Listeners: []config.Listener{l}, Pools: []config.Pool{p, pool("tcp/81", member(t, "a"))}}
	apply(t, e, c)
	// With another file, ports are not checked before the reload.
	if err := e.haproxy.Write("haproxy.cfg", []byte("global\n    description other\n")); err != nil {
		t.Fatal(err)
	}
	occupied, free := listener(t, "http", "tcp/81"), listener(t, "http", "tcp/82")
	occupied.Port, free.Pool = uint16(taken.Addr().(*net.TCPAddr).Port), occupied.Pool
	c.Listeners = append(c.Listeners, occupied, free)
	apply(t, e, c, "tcp/81")
	serves(t, l)
	serves(t, free)
	served, err := e.Serves(t.Context())
	if err != nil || len(served) != 2 || slices.Contains(served, netip.AddrPortFrom(occupied.Address, occupied.Port)) {
		t.Errorf("served are %v, error %v", served, err)
	}
}

// A listener that was removed has no port any more, although HAProxy keeps its socket: another program may take it. HAProxy
// aborts at a reload with such a socket, and with it all connections.
func TestPortOfRemovedListenerIsTaken(t *testing.T) {
	t.Parallel()
	for name, wanted := range map[string]bool{"not wanted": false, "wanted again": true} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, nil)
			l, p := other(t)
			stays, removed := listener(t, "http", "tcp/81"), listener(t, "http", "tcp/82")
			removed.Pool = stays.Pool
			c := &config.Config{
				Listeners: []config.Listener{l, stays, removed}, Pools: []config.Pool{p, pool("tcp/81", member(t, "a"))},
			}
			apply(t, e, c)
			first := master(t, e)
			c.Listeners = c.Listeners[:2]
			apply(t, e, c)
			taken, err := net.Listen("tcp", address(removed))
			if err != nil {
				t.Fatal(err)
			}
			defer taken.Close()
			var faulty []string
			if wanted {
				c.Listeners, faulty = append(c.Listeners, removed), []string{"tcp/82"}
				apply(t, e, c, faulty...)
			}
			c.Listeners[1].IdleTimeout = 50 * time.Second
			apply(t, e, c, faulty...)
			if master(t, e) != first {
				t.Error("HAProxy was started again")
			}
			serves(t, l)
			serves(t, stays)
			if err := taken.Close(); err != nil {
				t.Fatal(err)
			}
			c.Listeners = append(c.Listeners[:2], removed)
			apply(t, e, c)
			serves(t, removed)
		})
	}
}

// A load balancer with more members than can be probed does not take the checks of others, and HAProxy starts.
func TestMoreMembersThanCanBeProbed(t *testing.T) {
	e := newEngine(t, nil)
	e.files = 3000
	l, p := other(t)
	p.Monitor = tcpMonitor()
	greedy := listener(t, "http", "tcp/81")
	many, alive := pool("tcp/81"), member(t, "a")
	many.Monitor = tcpMonitor()
	c := &config.Config{Listeners: []config.Listener{greedy, l}, Pools: []config.Pool{many, p}}
	apply(t, e, c)
	for i := range e.files {
		m := alive
		m.Key = strconv.Itoa(i)
		many.Members = append(many.Members, m)
	}
	c.Pools[0].Members, c.Pools[1].Members = many.Members, []config.Member{p.Members[0], member(t, "b")}
	apply(t, e, c, "tcp/81")
	eventually(t, 5*time.Second, "a new member of the other load balancer is probed", func() bool {
		health, err := e.Health(t.Context())
		return err == nil && slices.ContainsFunc(health, func(h cloudv1.MemberHealth) bool {
			return h.MemberKey == "b" && h.State == cloudv1.OperatingOnline
		})
	})
	c.Pools[0].Members = many.Members[:100]
	apply(t, e, c)
	serves(t, greedy)
	apply(t, engineIn(t, e.Dir, e.Binary, nil), c)
}

// Those that ask what HAProxy does need not wait until it is changed.
func TestReadingDoesNotWaitForChanges(t *testing.T) {
	e := newEngine(t, nil)
	l, p := other(t)
	apply(t, e, &config.Config{Listeners: []config.Listener{l}, Pools: []config.Pool{p}})
	e.mu.Lock()
	defer e.mu.Unlock()
	done := make(chan error)
	go func() {
		_, err1 := e.Health(t.Context())
		_, err2 := e.Counters(t.Context())
		served, err3 := e.Serves(t.Context())
		if len(served) != 1 {
			err3 = fmt.Errorf("served are %v, error %w", served, err3)
		}
		done <- fmt.Errorf("%v %v %v", err1, err2, err3)
	}()
	select {
	case err := <-done:
		if err.Error() != "<nil> <nil> <nil>" {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("they wait")
	}
}

// The workers have no privileges, and nothing of the agent's environment.
func TestWorkersHaveNoPrivileges(t *testing.T) {
	t.Setenv("MYCLOUD_EDGE_TOKEN", "secret")
	plain := newEngine(t, nil)
	e, err := New(Options{
		Dir: plain.Dir, Binary: plain.Binary, User: "haproxy", Clock: plain.Clock, Logger: plain.Logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, p := other(t)
	c := &config.Config{Listeners: []config.Listener{l}, Pools: []config.Pool{p}}
	apply(t, e, c)
	for round := range 2 {
		serves(t, l)
		for _, pid := range []int{master(t, e), worker(t, e)} {
			environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			if err != nil || strings.Contains(string(environment), "secret") {
				t.Errorf("process %d has the token, error %v", pid, err)
			}
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", worker(t, e)))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{
			"Uid:\t" + e.user + "\t" + e.user, "Gid:\t" + e.group + "\t" + e.group,
			"Groups:\t \n", "CapEff:\t0000000000000000",
		} {
			if !strings.Contains(string(status), line) {
				t.Errorf("round %d: the worker's status has no %q:\n%s", round, line, status)
			}
		}
		c.Listeners[0].IdleTimeout += time.Second
		// A connection of before may still be ending.
		later(e, time.Hour)
		apply(t, e, c)
	}
}

// Members see the address of the client, and not what the client says about it.
func TestForwardedFor(t *testing.T) {
	e := newEngine(t, nil)
	accepting, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, strings.Join(r.Header.Values("X-Forwarded-For"), ";"))
	})}
	go server.Serve(accepting)
	defer server.Close()
	l := listener(t, "http", "tcp/80")
	apply(t, e, &config.Config{
		Listeners: []config.Listener{l}, Pools: []config.Pool{pool("tcp/80", memberAt("a", accepting.Addr()))},
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url(l), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header["X-Forwarded-For"] = []string{"192.0.2.1", "192.0.2.2"}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || string(body) != "127.0.0.1" {
		t.Errorf("the member sees %q, error %v", body, err)
	}
}

// A master that does not answer is replaced, and its connections go on.
func TestHungMasterIsReplaced(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil)
	l, p := other(t)
	tcp := listener(t, "tcp", "tcp/81")
	c := &config.Config{Listeners: []config.Listener{l, tcp}, Pools: []config.Pool{p, pool("tcp/81", echo(t, "a"))}}
	apply(t, e, c)
	held, hung := dial(t, tcp, ""), master(t, e)
	if !says(held, "x") {
		t.Fatal("no answer")
	}
	if err := syscall.Kill(hung, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, 60*time.Second, "the master is replaced", func() bool {
		_ = e.supervise(t.Context())
		now := master(t, e)
		return now != hung && now != 0
	})
	c.Listeners[0].IdleTimeout = 50 * time.Second
	apply(t, e, c)
	serves(t, l)
	if !says(held, "y") || !says(dial(t, tcp, ""), "z") {
		t.Error("a connection fails")
	}
	held.Close()
	eventually(t, 20*time.Second, "the hung master is gone", func() bool {
		_ = e.supervise(t.Context())
		return e.haproxy.Hung() == 0
	})
	if err := syscall.Kill(hung, 0); err == nil {
		t.Errorf("process %d is still there", hung)
	}
}

// A worker that does not work any more is replaced as well.
func TestHungWorkerIsReplaced(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil)
	l, p := other(t)
	apply(t, e, &config.Config{Listeners: []config.Listener{l}, Pools: []config.Pool{p}})
	hung := worker(t, e)
	if err := syscall.Kill(hung, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, 60*time.Second, "the worker is replaced", func() bool {
		return e.supervise(t.Context()) == nil && e.haproxy.Hung() == 0
	})
	for range 10 {
		serves(t, l)
	}
}

// reload makes HAProxy reload by a change of the last listener.
func reload(t testing.TB, e *Engine, c *config.Config) {
	t.Helper()
	before := worker(t, e)
	c.Listeners[len(c.Listeners)-1].IdleTimeout += time.Second
	apply(t, e, c)
	if worker(t, e) == before {
		t.Fatal("there was no reload")
	}
}

// What ends connections does so in the workers of earlier configurations, too.
func TestOldWorkersEndWhatMustEnd(t *testing.T) {
	e := newEngine(t, nil)
	l, p := other(t)
	tcp, removed := listener(t, "tcp", "tcp/81"), listener(t, "tcp", "tcp/82")
	removed.Pool = tcp.Pool
	dying, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	monitored := listener(t, "tcp", "tcp/83")
	probed := pool("tcp/83", memberAt("b", dying.Addr()))
	probed.Monitor = tcpMonitor()
	c := &config.Config{
		Listeners: []config.Listener{tcp, removed, monitored, l},
		Pools:     []config.Pool{pool("tcp/81", echo(t, "a")), probed, p},
	}
	apply(t, e, c)
	open := func(l config.Listener, source string) net.Conn {
		held := dial(t, l, source)
		if !says(held, "x") {
			t.Fatal("no answer")
		}
		return held
	}
	ends := func(held net.Conn) bool {
		held.SetReadDeadline(time.Now().Add(5 * time.Second))
		_, err := held.Read(make([]byte, 1))
		return err != nil && !os.IsTimeout(err)
	}
	inside, outside := open(tcp, "127.0.0.1"), open(tcp, "127.0.0.9")
	gone := open(removed, "")
	toDying := dial(t, monitored, "")
	answered, err := dying.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer answered.Close()
	reload(t, e, c)

	c.Listeners[0].Allowed = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/29")}
	apply(t, e, c)
	if !ends(outside) || !says(inside, "y") {
		t.Error("a client outside the source ranges goes on, or one inside does not")
	}
	c.Listeners = slices.Delete(c.Listeners, 1, 2)
	apply(t, e, c)
	if !ends(gone) || !says(inside, "y") {
		t.Error("a connection of a removed listener goes on, or another does not")
	}

	dying.Close()
	eventually(t, 5*time.Second, "the member is down", func() bool {
		return e.supervise(t.Context()) == nil && states(t, e)["tcp/83 b"].State == cloudv1.OperatingOffline
	})
	if err := e.supervise(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !ends(toDying) {
		t.Error("a connection to a dead member goes on")
	}

	c.Pools[0].Members = []config.Member{echo(t, "c")}
	apply(t, e, c)
	if err := e.supervise(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !says(inside, "y") {
		t.Error("a connection ends before its time to drain is over")
	}
	for at := range e.leaving {
		e.leaving[at] = time.Now()
	}
	if err := e.supervise(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !ends(inside) {
		t.Error("a connection goes on after its time to drain")
	}
	serves(t, l)
}
