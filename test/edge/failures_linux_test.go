package edge_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// An edge that is lost takes no connection of direct listeners along, once the network sends their packets to another.
func TestEdgeLost(t *testing.T) {
	w := newWorld(t, 2, 2)
	_, at := w.create(w.spec("web", cloudv1.ProtocolTCP, 80))
	w.must(w.RouteTo(w.Edges...))
	l, _ := w.long(at, 200)
	time.Sleep(500 * time.Millisecond)
	w.must(w.Edges[0].Cut())
	// What BGP with BFD takes.
	time.Sleep(300 * time.Millisecond)
	w.must(w.RouteTo(w.Edges[1]))
	if _, _, err := w.ask("tcp", at); err != nil {
		t.Errorf("a new connection: %v", err)
	}
	time.Sleep(3 * time.Second)
	if err := l.end(); err != nil {
		t.Error(err)
	}
	w.eventually("the API knows", func() bool {
		edges, err := w.cloud.ListEdges(w.Context(), cloudapi.ListOptions{})
		w.must(err)
		for _, e := range edges.Items {
			if e.Name == "edge1" {
				return e.State == cloudv1.EdgeOffline
			}
		}
		return false
	})
	// Without it, writes go on.
	w.create(w.spec("later", cloudv1.ProtocolTCP, 80))
}

// A node that is lost takes only its own connections along.
func TestNodeLost(t *testing.T) {
	w := newWorld(t, 1, 2)
	_, at := w.create(w.spec("web", cloudv1.ProtocolTCP, 80))
	l, nodes := w.long(at, 100)
	w.must(w.Nodes[0].Cut())
	time.Sleep(5 * time.Second)
	l.stop()
	l.wait()
	if lost := l.failed.Load(); lost != int64(nodes["node1"]) {
		t.Errorf("%d connections broke, want those of the lost node: %v", lost, nodes)
	}
}

// Without the agent and without the API, traffic goes on, and both catch up.
func TestControlAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 2)
	direct, directAt := w.create(w.spec("direct", cloudv1.ProtocolTCP, 80))
	_, proxyAt := w.create(w.spec("proxy", cloudv1.ProtocolTCP, 80, mode(cloudv1.VIPModeProxy)))
	loads := []*load{w.requests(directAt, 100), w.requests(proxyAt, 100)}
	l, _ := w.long(proxyAt, 20)
	loads = append(loads, l)

	e := w.edges[0]
	kill(e.agent)
	time.Sleep(time.Second)
	// Nothing is applied by an edge without its agent, so that nothing is waited for.
	w.setMembers(cloudv1.MembersPatch{Upsert: []cloudv1.GroupMember{member(w.Nodes[0], cloudv1.MemberDraining)}})
	w.startAgent(e)
	drained := func() bool {
		for range 20 {
			if node, _, err := w.ask("tcp", directAt); err != nil || node == "node1" {
				return false
			}
		}
		return true
	}
	w.eventually("the agent catches up", drained)

	kill(w.api)
	away := 5 * time.Second
	if *full {
		away = 10 * time.Minute
	}
	time.Sleep(away / 2)
	// The agent starts without the API as well.
	kill(e.agent)
	w.startAgent(e)
	time.Sleep(away / 2)
	w.startAPI()
	w.answers()
	w.update(direct.ID, addListener("tcp/9000", 9000))
	for i, l := range loads {
		if err := l.end(); err != nil {
			t.Errorf("load %d: %v", i, err)
		}
	}
}

// A full disk stops changes and no traffic. The faults are shown, nothing is confirmed that a restart would undo, and what
// was missed is applied later.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 2, func(e *edge) {
		if err := syscall.Mount("tmpfs", e.dir, "tmpfs", 0, "size=2m"); err != nil {
			t.Skipf("no small disk: %v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(e.dir, syscall.MNT_DETACH) })
	})
	_, at := w.create(w.spec("first", cloudv1.ProtocolTCP, 80, mode(cloudv1.VIPModeProxy)))
	l := w.requests(at, 100)
	filling := filepath.Join(w.edges[0].dir, "filling")
	// It fills what there is, and fails.
	_ = os.WriteFile(filling, make([]byte, 4<<20), 0o600)
	lb, _, err := w.cloud.CreateLoadBalancer(
		w.Context(), w.spec("second", cloudv1.ProtocolTCP, 80, mode(cloudv1.VIPModeProxy)), cloudapi.WriteOptions{},
	)
	w.must(err)
	w.eventually("the edge reports it", func() bool {
		edges, err := w.cloud.ListEdges(w.Context(), cloudapi.ListOptions{})
		w.must(err)
		for _, f := range edges.Items[0].Faults {
			if strings.Contains(f.Detail, "not confirmed") && strings.Contains(f.Detail, "no space left on device") {
				return true
			}
		}
		return false
	})
	w.must(os.Remove(filling))
	second := netip.AddrPortFrom(netip.MustParseAddr(lb.VIPs[0].Address), 80)
	w.eventually("the edge catches up", func() bool {
		_, _, err := w.ask("tcp", second)
		return err == nil
	})
	if err := l.end(); err != nil {
		t.Error(err)
	}
}

// A listener whose certificate is missing is a fault of its load balancer, and of nothing else.
func TestFaultOfOneListener(t *testing.T) {
	w := newWorld(t, 1, 2)
	_, at := w.create(w.spec("good", cloudv1.ProtocolTCP, 80, mode(cloudv1.VIPModeProxy)))
	bad := w.spec("bad", cloudv1.ProtocolHTTPS, 443, mode(cloudv1.VIPModeProxy), listeners(func(l *cloudv1.Listener) {
		l.TLS = &cloudv1.TLS{CertificateIDs: []string{"cert-01234567"}}
	}))
	lb, job, err := w.cloud.CreateLoadBalancer(w.Context(), bad, cloudapi.WriteOptions{})
	w.must(err)
	if err := w.cloud.WaitJob(w.Context(), job); err == nil {
		t.Error("the job succeeded")
	}
	lb, err = w.cloud.LoadBalancer(w.Context(), lb.ID)
	w.must(err)
	if lb.Fault == nil || !strings.Contains(lb.Fault.Detail, "cert-01234567") {
		t.Errorf("state %s, fault %+v", lb.ProvisioningState, lb.Fault)
	}
	if _, _, err := w.ask("tcp", at); err != nil {
		t.Error(err)
	}
}
