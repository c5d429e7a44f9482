package haproxy

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
)

// silent returns an address at which connections are neither accepted nor refused.
func silent(t testing.TB) netip.AddrPort {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(name.(*syscall.SockaddrInet4).Port))
	// The queue is full with the first connections.
	for range 2 {
		if held, err := net.DialTimeout("tcp", at.String(), time.Second); err == nil {
			t.Cleanup(func() { held.Close() })
		}
	}
	return at
}

// The members of one load balancer, thousands of them that do not answer, do not delay how soon HAProxy notices that those
// of another fail, or are back.
func TestMembersOfOthersDelayNoHealth(t *testing.T) {
	const pools, members, most = 4, 1000, 3
	e := newEngine(t, nil)
	l, p := other(t)
	p.Monitor = tcpMonitor()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.Members = []config.Member{memberAt("m", free.Addr())}
	c := &config.Config{Listeners: []config.Listener{l}, Pools: []config.Pool{p}}
	apply(t, e, c)
	becomes := func(state string) time.Duration {
		start := time.Now()
		eventually(t, 60*time.Second, "the member is "+state, func() bool {
			health, err := e.Health(t.Context())
			return err == nil && slices.ContainsFunc(health, func(h cloudv1.MemberHealth) bool {
				return h.MemberKey == "m" && h.State == state
			})
		})
		return time.Since(start)
	}
	// round has the member fail and come back, and returns how long it took to notice both.
	round := func() time.Duration {
		becomes(cloudv1.OperatingOnline)
		free.Close()
		took := becomes(cloudv1.OperatingOffline)
		if free, err = net.Listen("tcp", free.Addr().String()); err != nil {
			t.Fatal(err)
		}
		return took + becomes(cloudv1.OperatingOnline)
	}
	rounds := func() time.Duration { return min(round(), round(), round()) }
	alone := rounds()
	at := silent(t)
	for i := range pools {
		slow := pool(fmt.Sprintf("tcp/%d", 1000+i))
		slow.ID.LoadBalancer, slow.Monitor = "slow", &config.Monitor{Type: "tcp", Interval: time.Second, Timeout: time.Second, Rise: 1, Fall: 3}
		for j := range members {
			slow.Members = append(slow.Members, config.Member{Key: fmt.Sprint(j), Address: at.Addr(), Port: at.Port(), Weight: 1})
		}
		c.Pools = append(c.Pools, slow)
	}
	apply(t, e, c)
	eventually(t, 60*time.Second, "members of the other load balancer are probed", func() bool {
		health, err := e.Health(t.Context())
		return err == nil && slices.ContainsFunc(health, func(h cloudv1.MemberHealth) bool {
			return h.LoadBalancerID == "slow" && h.State == cloudv1.OperatingOffline
		})
	})
	together := rounds()
	t.Logf("a failure and a return are noticed within %v, and within %v next to %d silent members", alone, together, pools*members)
	if together > most*alone {
		t.Errorf("they must be noticed within %d times as long", most)
	}
	free.Close()
}

// between has commands to HAProxy pass through a socket of its own, which does not answer those with a word while it
// hangs.
func between(t testing.TB, e *Engine, word string) (hangs *atomic.Bool) {
	t.Helper()
	hangs = &atomic.Bool{}
	moved := e.haproxy.File("real.sock")
	if err := os.Rename(e.haproxy.File("master.sock"), moved); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", e.haproxy.File("master.sock"))
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		running.Wait()
		_ = os.Rename(moved, e.haproxy.File("master.sock"))
	})
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer client.Close()
				command, err := io.ReadAll(client)
				if err != nil {
					return
				}
				if hangs.Load() && strings.Contains(string(command), word) {
					// The client gives up first.
					time.Sleep(6 * time.Second)
					return
				}
				server, err := net.Dial("unix", moved)
				if err != nil {
					return
				}
				defer server.Close()
				if _, err := server.Write(command); err == nil && server.(*net.UnixConn).CloseWrite() == nil {
					_, _ = io.Copy(client, server)
				}
			})
		}
	})
	return hangs
}

// If HAProxy has so many connections that it cannot list them in time, those that must end do so later, and everything
// else is applied.
func TestConnectionsThatMustEndHoldUpNothing(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil)
	l, p := other(t)
	tcp := listener(t, "tcp", "tcp/81")
	c := &config.Config{Listeners: []config.Listener{tcp, l}, Pools: []config.Pool{pool("tcp/81", echo(t, "a")), p}}
	apply(t, e, c)
	held := dial(t, tcp, "")
	if !says(held, "x") {
		t.Fatal("no answer")
	}
	hangs := between(t, e, "show sess")
	hangs.Store(true)
	c.Listeners = c.Listeners[1:]
	c.Pools[1].Members = []config.Member{member(t, "new")}
	faults, err := e.Apply(t.Context(), c)
	if err != nil || len(faults) != 1 || faults[0].LoadBalancerID != "lb-1" || !strings.Contains(faults[0].Detail, "connections that must end go on") {
		t.Errorf("faults %v, error %v, want one fault of the load balancer", faults, err)
	}
	if status, body := get(t, url(l)); status != 200 || body != "new" {
		t.Errorf("the other load balancer answers %d %q", status, body)
	}
	hangs.Store(false)
	apply(t, e, c)
	held.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := held.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Error("a connection of a listener that is gone goes on")
	}
}

// A load balancer keeps its members when HAProxy has crashed, although others that come first want more than there is.
func TestSharesAfterCrash(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil)
	c := &config.Config{}
	add := func(id string, members int) {
		l, p := listener(t, "tcp", "tcp/80"), pool("tcp/80")
		l.LoadBalancer, l.Pool.LoadBalancer, p.ID.LoadBalancer = id, id, id
		for i := range members {
			at := netip.AddrFrom4([4]byte{127, 1, byte(i >> 8), byte(i)})
			p.Members = append(p.Members, config.Member{Key: fmt.Sprint(i), Address: at, Port: 9, Weight: 1})
		}
		c.Listeners, c.Pools = append([]config.Listener{l}, c.Listeners...), append([]config.Pool{p}, c.Pools...)
	}
	add("small", 300)
	apply(t, e, c)
	add("first", 2304)
	add("second", 2304)
	for _, when := range []string{"before", "after"} {
		faults, err := e.Apply(t.Context(), c)
		if err != nil || len(faults) != 1 || faults[0].LoadBalancerID == "small" {
			t.Errorf("%s the crash: faults %v, error %v, want one fault of a large load balancer", when, faults, err)
		}
		if err := syscall.Kill(master(t, e), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "HAProxy has ended", func() bool { return master(t, e) == 0 })
	}
}
