package edge_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// A port that another program of the edge has is a fault of the listener, and no way to the program: neither before the
// proxy has refused it nor later, whatever source ranges the load balancer allows.
func TestPortOfAnotherProgram(t *testing.T) {
	w := newWorld(t, 1, 2)
	_, witness := w.create(w.spec("witness", cloudv1.ProtocolTCP, 80, mode(cloudv1.VIPModeProxy)))
	program, err := w.Edges[0].Listen(t.Context(), "tcp", "[::]:22")
	w.must(err)
	defer program.Close()
	l := w.requests(witness, 50)
	lb, job, err := w.cloud.CreateLoadBalancer(w.Context(), w.spec("bad", cloudv1.ProtocolTCP, 22, mode(cloudv1.VIPModeProxy),
		listeners(func(l *cloudv1.Listener) { l.AllowedCIDRs = []string{"192.0.2.0/24"} })), cloudapi.WriteOptions{})
	w.must(err)
	reached := func() bool {
		conn, err := w.Client.Dial(w.Context(), "tcp", lb.VIPs[0].Address+":22")
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}
	done := make(chan error, 1)
	go func() { done <- w.cloud.WaitJob(w.Context(), job) }()
	for waiting := true; waiting; {
		select {
		case err = <-done:
			waiting = false
		default:
			if reached() {
				t.Fatal("a client has reached the program of the edge")
			}
		}
	}
	if err == nil || !strings.Contains(err.Error(), "another program of this machine uses the port") {
		t.Errorf("the job ended with %v", err)
	}
	if _, err := w.Client.Dial(w.Context(), "tcp", lb.VIPs[0].Address+":22"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("error %v, want connection refused", err)
	}
	if err := l.end(); err != nil {
		t.Error(err)
	}
}

// A load balancer of the proxy that has its share of connections gets no more, and others do.
func TestConnectionsPerAddress(t *testing.T) {
	const share = 30
	w := newWorld(t, 1, 2, func(e *edge) { e.args = []string{fmt.Sprintf("--connections-per-address=%d", share)} })
	_, greedy := w.create(w.spec("greedy", cloudv1.ProtocolTCP, 80, mode(cloudv1.VIPModeProxy)))
	_, other := w.create(w.spec("other", cloudv1.ProtocolTCP, 80, mode(cloudv1.VIPModeProxy)))
	held, _ := w.long(greedy, share)
	if _, _, err := w.ask("tcp", greedy); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a connection beyond the share: error %v, want connection refused", err)
	}
	if _, _, err := w.ask("tcp", other); err != nil {
		t.Error(err)
	}
	w.must(held.end())
}

// While nft hangs, traffic goes on, the edge reports, and it catches up later.
func TestNftHangs(t *testing.T) {
	t.Parallel()
	nft, err := exec.LookPath("nft")
	if err != nil {
		t.Skip(err)
	}
	bin := t.TempDir()
	hanging := filepath.Join(bin, "hanging")
	// What it starts has its output, and goes on without it.
	script := "#!/bin/sh\nif [ -e " + hanging + " ]; then sleep 1000; fi\nexec " + nft + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "nft"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, 1, 2, func(e *edge) { e.env = []string{"PATH=" + bin + ":" + os.Getenv("PATH")} })
	_, direct := w.create(w.spec("direct", cloudv1.ProtocolTCP, 80))
	_, proxy := w.create(w.spec("proxy", cloudv1.ProtocolTCP, 80, mode(cloudv1.VIPModeProxy)))
	loads := []*load{w.requests(direct, 50), w.requests(proxy, 50)}
	w.must(os.WriteFile(hanging, nil, 0o600))
	second, _, err := w.cloud.CreateLoadBalancer(w.Context(), w.spec("second", cloudv1.ProtocolTCP, 81, mode(cloudv1.VIPModeProxy)), cloudapi.WriteOptions{})
	w.must(err)
	faulty := func(text string) func() bool {
		return func() bool {
			edges, err := w.cloud.ListEdges(w.Context(), cloudapi.ListOptions{})
			w.must(err)
			for _, f := range edges.Items[0].Faults {
				if strings.Contains(f.Detail, text) {
					return true
				}
			}
			return false
		}
	}
	w.eventually("the edge says that it is stuck", faulty("the state of the cloud is being applied for more than 10s"))
	w.must(os.Remove(hanging))
	at := netip.AddrPortFrom(netip.MustParseAddr(second.VIPs[0].Address), 81)
	w.eventually("the edge catches up", func() bool {
		_, _, err := w.ask("tcp", at)
		return err == nil && !faulty("")()
	})
	for _, l := range loads {
		if err := l.end(); err != nil {
			t.Error(err)
		}
	}
}
