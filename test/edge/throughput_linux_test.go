package edge_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/test/edgenet"
)

// Requests per second over kept connections, compared with an edge that only routes: the least ratio of each engine.
// All are measured in turn, so that what else the machine does concerns all of them.
func TestThroughput(t *testing.T) {
	if !*full {
		t.Skip("how fast a busy machine is proves nothing; run it by make test-edge")
	}
	edgenet.Require(t, "wrk")
	const rounds = 7
	w := newWorld(t, 1, 1)
	page := func(s *cloudv1.LoadBalancerSpec) { s.Pools[0].TargetPort = httpPort }
	_, direct := w.create(w.spec("direct", cloudv1.ProtocolTCP, 80, page))
	_, tcp := w.create(w.spec("tcp", cloudv1.ProtocolTCP, 80, page, mode(cloudv1.VIPModeProxy)))
	_, http := w.create(w.spec("http", cloudv1.ProtocolHTTP, 80))
	paths := []struct {
		name  string
		at    netip.AddrPort
		least float64
	}{
		{"routing", netip.AddrPortFrom(w.routed(), httpPort), 1},
		{"direct", direct, 0.85},
		{"HAProxy, tcp", tcp, 0.60},
		{"HAProxy, http", http, 0.40},
	}
	ratios := make([][]float64, len(paths))
	for round := range rounds + 1 {
		var routing float64
		for i, p := range paths {
			rate := w.rate(p.at)
			if i == 0 {
				routing = rate
			}
			if round > 0 { // the first one warms up
				ratios[i] = append(ratios[i], rate/routing)
			}
		}
	}
	for i, p := range paths {
		slices.Sort(ratios[i])
		median := ratios[i][rounds/2]
		t.Logf("%s: %.2f of routing (%.2f to %.2f)", p.name, median, ratios[i][0], ratios[i][rounds-1])
		if median < p.least {
			t.Errorf("%s: %.2f of routing, want at least %.2f", p.name, median, p.least)
		}
	}
}

// routed gives the node an address that the client reaches through the edge, which does nothing but route it.
func (w *world) routed() netip.Addr {
	w.Helper()
	address := netip.MustParseAddr("10.77.0.1")
	target := edgenet.IPNet(netip.PrefixFrom(address, address.BitLen()))
	node, edge := w.Nodes[0], w.Edges[0]
	lo, err := node.Links.LinkByName("lo")
	w.must(err)
	w.must(node.Links.AddrAdd(lo, &netlink.Addr{IPNet: target}))
	w.must(edge.Links.RouteAdd(&netlink.Route{Dst: target, Gw: node.Inner4.AsSlice()}))
	w.must(w.Client.Links.RouteAdd(&netlink.Route{Dst: target, Gw: edge.Outer4.AsSlice()}))
	return address
}

// rate returns the requests per second that an address answers.
func (w *world) rate(at netip.AddrPort) float64 {
	w.Helper()
	out, err := w.Client.Run(w.Context(), "wrk", "--threads=2", "--connections=32", "--duration=2s", "http://"+at.String()+"/")
	w.must(err)
	var rate float64
	for line := range strings.Lines(out) {
		if _, err := fmt.Sscanf(line, "Requests/sec: %f", &rate); err == nil {
			return rate
		}
	}
	w.Fatalf("wrk printed no rate:\n%s", out)
	return 0
}
