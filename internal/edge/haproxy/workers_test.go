package haproxy

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"quaymaster.dev/internal/edge/config"
)

// memory returns the memory of the master and the workers in kB, that which they share divided among them.
func memory(t testing.TB, e *Engine) int {
	t.Helper()
	p, err := e.master.processes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, pid := range append(p.old, p.current, e.alive()) {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			if fields := strings.Fields(line); fields[0] == "Pss:" {
				kB, err := strconv.Atoi(fields[1])
				if err != nil {
					t.Fatal(err)
				}
				sum += kB
			}
		}
	}
	return sum
}

// However often a load balancer changes, and however long connections go on, HAProxy's workers are few. Others do not
// wait for them.
func TestChangesUnderHeldConnections(t *testing.T) {
	e := newEngine(t, nil)
	l, p := other(t)
	tcp, changing := listener(t, "tcp", "tcp/81"), listener(t, "http", "tcp/82")
	c := &config.Config{
		Listeners: []config.Listener{tcp, changing, l},
		Pools:     []config.Pool{pool("tcp/81", echo(t, "a")), pool("tcp/82", member(t, "b")), p},
	}
	apply(t, e, c)
	start := memory(t, e)
	var held []net.Conn
	var waiting string
	most := 0
	for range 100 {
		connection := dial(t, tcp, "")
		if !says(connection, "x") {
			t.Fatal("no answer")
		}
		held = append(held, connection)
		c.Listeners[1].IdleTimeout += time.Second
		faults, err := e.Apply(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range faults {
			if waiting = f.Detail; f.ListenerKey != "tcp/82" {
				t.Fatalf("fault %+v", f)
			}
		}
		serves(t, changing)
		now, err := e.master.processes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, 1+len(now.old))
	}
	t.Logf("%d workers, %d kB instead of %d; fault: %s", most, memory(t, e), start, waiting)
	if most > 1+mostOwnWorkers || waiting == "" {
		t.Errorf("there were %d workers", most)
	}

	// Another load balancer gets what it wants, and so does this one for what needs no reload.
	added := listener(t, "http", "tcp/90")
	added.LoadBalancer, added.Pool = l.LoadBalancer, l.Pool
	c.Listeners = append(c.Listeners, added)
	c.Pools[1].Members = []config.Member{member(t, "c")}
	apply(t, e, c, "tcp/82")
	serves(t, added)
	if _, body := get(t, url(changing)); body != "c" {
		t.Errorf("the members of a load balancer that waits are %s", body)
	}
	for i, connection := range held {
		if !says(connection, "y") {
			t.Errorf("connection %d is broken", i)
		}
	}
	// The next change takes its turn, however long the connections go on.
	for worker, r := range e.left {
		r.at = r.at.Add(-ownReloadInterval)
		e.left[worker] = r
	}
	if held = append(held, dial(t, tcp, "")); !says(held[len(held)-1], "x") {
		t.Fatal("no answer")
	}
	apply(t, e, c)
	c.Listeners[1].IdleTimeout += time.Second
	apply(t, e, c, "tcp/82")
	for _, connection := range held {
		connection.Close()
	}
	eventually(t, 10*time.Second, "the change is no longer held up", func() bool {
		faults, err := e.Apply(t.Context(), c)
		return err == nil && len(faults) == 0
	})
}

// A listener that goes, and returns, needs no new worker.
func TestRemovalNeedsNoReload(t *testing.T) {
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
