package haproxy

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/test/harness/port"
)

// certificates has key pairs by id: the chain and the key.
type certificates map[string][2][]byte

func (c certificates) KeyPair(id string) (chain, key []byte, ok bool) {
	pair, ok := c[id]
	return pair[0], pair[1], ok
}

// newEngine returns an engine with the real HAProxy, which ends with the test.
func newEngine(t testing.TB, source Certificates) *Engine {
	t.Helper()
	binary, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip("haproxy is not installed: tools/edge-packages.sh installs it")
	}
	e := engineIn(t, t.TempDir(), binary, source)
	t.Cleanup(func() {
		if err := e.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			log, _ := os.ReadFile(e.haproxy.File("haproxy.log"))
			t.Logf("HAProxy's log:\n%s", log)
		}
	})
	return e
}

// engineIn returns another engine for the same folder, as a restarted agent has it.
func engineIn(t testing.TB, dir, binary string, source Certificates) *Engine {
	t.Helper()
	e, err := New(Options{
		Dir: dir, Binary: binary, Certificates: source, Clock: clock.RealClock{},
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// apply applies a configuration and requires the faults, by the listeners' keys, in any order.
func apply(t testing.TB, e *Engine, c *config.Config, faulty ...string) []cloudv1.EdgeFault {
	t.Helper()
	faults, err := e.Apply(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, f := range faults {
		keys = append(keys, f.ListenerKey)
	}
	slices.Sort(keys)
	slices.Sort(faulty)
	if !slices.Equal(keys, faulty) {
		t.Fatalf("faults are %+v, want those of %v", faults, faulty)
	}
	return faults
}

// worker returns the process id of the worker.
func worker(t testing.TB, e *Engine) int {
	t.Helper()
	p, err := e.haproxy.Running(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p.Current
}

// master returns the process id of the master process, or 0 if it does not answer.
func master(t testing.TB, e *Engine) int {
	t.Helper()
	p, err := e.haproxy.Running(t.Context())
	if err != nil || p.Current == 0 {
		return 0
	}
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Current))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(content), "\nPPid:")
	pid := 0
	fmt.Sscan(after, &pid)
	return pid
}

// freePort returns a port that no program listens on.
func freePort(t testing.TB) uint16 {
	t.Helper()
	free, err := port.Free()
	if err != nil {
		t.Fatal(err)
	}
	return uint16(free)
}

// member starts a server that answers HTTP requests with its key.
func member(t testing.TB, key string) config.Member {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, key)
	})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return memberAt(key, l.Addr())
}

// echo starts a server that returns what it is sent.
func echo(t testing.TB, key string) config.Member {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			connections.Go(func() {
				io.Copy(c, c)
				c.Close()
			})
		}
	})
	t.Cleanup(func() { l.Close() })
	return memberAt(key, l.Addr())
}

func memberAt(key string, address net.Addr) config.Member {
	at := netip.MustParseAddrPort(address.String())
	return config.Member{Key: key, Address: at.Addr(), Port: at.Port(), Weight: 1}
}

// pool returns a pool of the load balancer lb-1.
func pool(key string, members ...config.Member) config.Pool {
	return config.Pool{
		ID: config.PoolID{LoadBalancer: "lb-1", Key: key, Family: "ipv4"}, Protocol: "http", Algorithm: "round_robin",
		Members: members, Drain: time.Second,
	}
}

// listener returns a listener of the load balancer lb-1 on a free port.
func listener(t testing.TB, protocol, key string) config.Listener {
	t.Helper()
	return config.Listener{
		LoadBalancer: "lb-1", Key: key, Address: netip.MustParseAddr("127.0.0.1"), Port: freePort(t), Protocol: protocol,
		Engine: config.Proxy, Pool: config.PoolID{LoadBalancer: "lb-1", Key: key, Family: "ipv4"},
	}
}

func url(l config.Listener) string {
	return fmt.Sprintf("http://%s/", netip.AddrPortFrom(l.Address, l.Port))
}

// get sends one request on a new connection, and returns the status and the body.
func get(t testing.TB, url string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	r, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

// eventually waits until a condition holds.
func eventually(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

func TestApplyServesReloadsAndIsAdopted(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil)
	c := &config.Config{
		Listeners: []config.Listener{listener(t, "http", "tcp/80")},
		Pools:     []config.Pool{pool("tcp/80", member(t, "a"))},
	}
	apply(t, e, c)
	if status, body := get(t, url(c.Listeners[0])); status != 200 || body != "a" {
		t.Fatalf("answer is %d %q", status, body)
	}
	first := worker(t, e)
	apply(t, e, c)
	if now := worker(t, e); now != first {
		t.Error("the same configuration reloads HAProxy")
	}

	restarted := engineIn(t, e.Dir, e.Binary, nil)
	apply(t, restarted, c)
	if now := worker(t, e); now != first {
		t.Error("a restarted agent reloads HAProxy")
	}

	c.Listeners = append(c.Listeners, listener(t, "tcp", "tcp/81"))
	c.Pools = append(c.Pools, pool("tcp/81", member(t, "b")))
	apply(t, restarted, c)
	if now := worker(t, e); now == first {
		t.Error("a new listener does not reload HAProxy")
	}
	for i, want := range []string{"a", "b"} {
		if status, body := get(t, url(c.Listeners[i])); status != 200 || body != want {
			t.Errorf("answer of listener %d is %d %q", i, status, body)
		}
	}
}
