package haproxy

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os/exec"
	"testing"
	"time"

	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
)

func newEngines(t *testing.T) *Engines {
	t.Helper()
	if _, err := exec.LookPath("haproxy"); err != nil {
		t.Skip("haproxy is not installed: tools/edge-packages.sh installs it")
	}
	e, err := NewEngines(Options{
		Dir: t.TempDir(), Clock: clock.RealClock{},
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, one := range []*Engine{e.serving, e.probing} {
			if err := one.Stop(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}
	})
	return e
}

// Load balancers of the kernel come and go without a reload of what has connections, and their members are probed.
func TestProbedPoolsLeaveNoWorkers(t *testing.T) {
	t.Parallel()
	e := newEngines(t)
	tcp := listener(t, "tcp", "tcp/81")
	c := &config.Config{Listeners: []config.Listener{tcp}, Pools: []config.Pool{pool("tcp/81", echo(t, "a"))}}
	alive, dead := member(t, "alive"), member(t, "dead")
	dead.Port = freePort(t)
	change := func() {
		t.Helper()
		if faults, err := e.Apply(t.Context(), c); err != nil || len(faults) > 0 {
			t.Fatalf("faults %+v, error %v", faults, err)
		}
	}
	change()
	var connections []net.Conn
	for i := range 20 {
		connections = append(connections, held(t, tcp))
		l, p := listener(t, "tcp", "tcp/80"), pool("tcp/80", alive, dead)
		l.LoadBalancer, l.Engine = fmt.Sprintf("lb-new-%d", i), config.Direct
		l.Pool.LoadBalancer, p.ID.LoadBalancer, p.Monitor = l.LoadBalancer, l.LoadBalancer, tcpMonitor()
		c.Listeners, c.Pools = append(c.Listeners, l), append(c.Pools, p)
		change()
	}
	if n := workers(t, e.serving); n != 1 {
		t.Errorf("%d workers have connections", n)
	}
	eventually(t, 20*time.Second, "all members are probed", func() bool {
		health, err := e.Health(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		states := map[string]int{}
		for _, h := range health {
			states[h.MemberKey+" "+h.State]++
		}
		return states["alive "+cloudv1.OperatingOnline] == 20 && states["dead "+cloudv1.OperatingOffline] == 20 && len(states) == 2
	})
	for i, connection := range connections {
		if !says(connection, "y") {
			t.Errorf("connection %d is broken", i)
		}
	}
	if served, err := e.Serves(t.Context()); err != nil || len(served) != 1 {
		t.Errorf("served are %v, error %v", served, err)
	}
}

// The kernel's members are probed whatever becomes of the proxy's listeners on the same pool, or of the proxy.
func TestKernelIsProbedWithoutListeners(t *testing.T) {
	t.Parallel()
	e := newEngines(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	refused, forwarded := listener(t, "tcp", "tcp/80"), listener(t, "tcp", "tcp/80")
	refused.Port, forwarded.Engine = uint16(taken.Addr().(*net.TCPAddr).Port), config.Direct
	dead, p := member(t, "dead"), pool("tcp/80")
	dead.Port = freePort(t)
	p.Members, p.Monitor = []config.Member{member(t, "alive"), dead}, tcpMonitor()
	c := &config.Config{Listeners: []config.Listener{refused, forwarded}, Pools: []config.Pool{p}}
	if faults, err := e.Apply(t.Context(), c); err != nil || len(faults) != 1 {
		t.Fatalf("faults %+v, error %v", faults, err)
	}
	probed := func(fails bool) func() bool {
		return func() bool {
			health, err := e.Health(t.Context())
			if (err != nil) != fails {
				t.Fatal(err)
			}
			states := map[string]string{}
			for _, h := range health {
				states[h.MemberKey] = h.State
			}
			return len(health) == 2 && states["alive"] == cloudv1.OperatingOnline && states["dead"] == cloudv1.OperatingOffline
		}
	}
	eventually(t, 20*time.Second, "the members are probed", probed(false))
	if err := e.serving.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !probed(true)() {
		t.Error("without the proxy, the health of the kernel's members is not known")
	}
}
