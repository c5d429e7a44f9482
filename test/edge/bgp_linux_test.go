package edge_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/harness/edgenet"
)

// The autonomous systems of the router and of the edges.
const routerAS, edgeAS = 64500, 64512

// newRoutedWorld is a world in which the client learns the addresses by BGP, with equal-cost routes to all edges. On a busy
// machine, an edge misses a few packets of BFD that it is to send each 100 ms.
func newRoutedWorld(t *testing.T, edges, nodes int) *world {
	t.Helper()
	edgenet.Require(t, "bird", "birdc")
	w := newWorld(t, edges, nodes, func(e *edge) {
		e.args = append(e.args, "--announce=bgp", fmt.Sprintf("--bgp-as=%d", edgeAS), "--bgp-router-id="+e.Outer4.String(),
			fmt.Sprintf("--bgp-peer=198.51.100.100=%d", routerAS))
		e.env = append(e.env, "PATH="+filepath.Join(e.dir, "programs")+":"+os.Getenv("PATH"))
	})
	w.must(w.RouteTo())
	router := edgenet.Router{ID: w.Client.Outer4, AS: routerAS, EdgeAS: edgeAS, Misses: 5}
	for _, e := range w.Edges {
		router.Edges = append(router.Edges, e.Outer4)
	}
	config, err := router.Configure(w.Client)
	w.must(err)
	file, pid := filepath.Join(w.dir, "router.conf"), filepath.Join(w.dir, "router.pid")
	w.must(os.WriteFile(file, []byte(config), 0o600))
	t.Cleanup(func() { killByFile(pid) })
	_, err = w.Client.Run(t.Context(), "bird", "-c", file, "-s", filepath.Join(w.dir, "router.ctl"), "-P", pid)
	w.must(err)
	return w
}

// reboot does what systemd does to an edge when its machine reboots: it ends the agent, then everything else, of which
// bird takes longest.
func (w *world) reboot(e *edge) {
	w.Helper()
	programs := filepath.Join(e.dir, "programs")
	w.must(os.MkdirAll(programs, 0o700))
	w.must(os.WriteFile(filepath.Join(programs, "systemctl"), []byte("#!/bin/sh\necho stopping\nexit 1\n"), 0o700))
	w.must(e.agent.Process.Signal(syscall.SIGTERM))
	w.must(e.agent.Wait())
	killByFile(filepath.Join(e.dir, "haproxy", "haproxy.pid"))
	killByFile(filepath.Join(e.dir, "probes", "haproxy.pid"))
	time.Sleep(time.Second / 2)
	w.stopEdge(e)
	time.Sleep(time.Second)
	w.startAgent(e)
	time.Sleep(3 * time.Second)
}

// Two edges share traffic and limits. The loss of one breaks no connection of a direct listener, and a planned drain or
// reboot does not even delay one.
func TestTwoEdgesByBGP(t *testing.T) {
	w := newRoutedWorld(t, 2, 2)
	_, at := w.create(w.spec("web", cloudv1.ProtocolTCP, 80))
	w.eventually("the router has learnt the address", func() bool {
		_, _, err := w.ask("tcp", at)
		return err == nil
	})
	for _, limit := range limits() {
		t.Run(fmt.Sprintf("limit %d", limit), func(t *testing.T) {
			_, limited := w.create(w.spec(fmt.Sprintf("limited-%d", limit), cloudv1.ProtocolTCP, 80,
				listeners(func(l *cloudv1.Listener) { l.MaxQPS = limit })))
			w.eventually("the router has learnt its address", func() bool {
				_, _, err := w.ask("tcp", limited)
				return err == nil
			})
			keeps(t, limit, func() float64 { return w.connected(limited, offered(limit), overload(), 5*time.Second) })
		})
	}
	t.Run("drain", func(t *testing.T) {
		l, _ := w.long(at, 50)
		asked := w.requests(at, 100)
		edges, err := w.cloud.ListEdges(t.Context(), cloudapi.ListOptions{})
		w.must(err)
		for _, draining := range []bool{true, false} {
			e, err := w.cloud.Edge(t.Context(), edges.Items[0].ID)
			w.must(err)
			_, err = w.cloud.PatchEdge(t.Context(), e.ID, cloudv1.EdgePatch{Draining: &draining}, cloudapi.WriteOptions{IfMatch: e.Revision})
			w.must(err)
			time.Sleep(3 * time.Second)
		}
		for name, l := range map[string]*load{"connections": l, "requests": asked} {
			if err := l.end(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("reboot", func(t *testing.T) {
		_, proxy := w.create(w.spec("proxy", cloudv1.ProtocolTCP, 80, mode(cloudv1.VIPModeProxy)))
		w.eventually("the router has learnt its address", func() bool {
			_, _, err := w.ask("tcp", proxy)
			return err == nil
		})
		l, _ := w.long(at, 50)
		asked, proxied := w.requests(at, 100), w.requests(proxy, 100)
		w.reboot(w.edges[0])
		for name, l := range map[string]*load{"connections": l, "requests": asked} {
			if err := l.end(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		// The other edge does not know the connections through HAProxy that are open when the address is withdrawn.
		const open = 2
		if err := proxied.end(); err != nil && (proxied.failed.Load() > open || strings.Contains(err.Error(), "dial")) {
			t.Errorf("requests to the proxy: %v", err)
		}
	})
	t.Run("loss", func(t *testing.T) {
		l, _ := w.long(at, 200)
		w.must(w.Edges[0].Cut())
		start := time.Now()
		gap := time.Duration(0)
		for last := start; time.Since(start) < 3*time.Second; {
			if _, _, err := w.ask("tcp", at); err == nil {
				gap, last = max(gap, time.Since(last)), time.Now()
			}
		}
		t.Logf("new connections: gap %s", gap.Round(time.Millisecond))
		if gap > time.Second+500*time.Millisecond {
			t.Errorf("no new connection for %s", gap)
		}
		if err := l.end(); err != nil {
			t.Error(err)
		}
	})
}
