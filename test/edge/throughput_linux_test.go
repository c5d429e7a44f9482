package edge_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/test/harness/edgenet"
)

// Requests per second over kept connections, compared with an edge that only routes: the least ratio of each engine. The
// answers take the same way in both: past the edge, or through it as every proxy's do. All are measured in turn, so that
// what else the machine does concerns all of them.
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
	past := netip.AddrPortFrom(w.routed("10.77.0.1"), httpPort)
	through := netip.AddrPortFrom(w.routed("10.77.0.2"), httpPort)
	w.answerThroughEdge(through.Addr())
	engines := []struct {
		name        string
		at, routing netip.AddrPort
		least       float64
	}{
		{"direct", direct, past, 0.85},
		{"HAProxy, tcp", tcp, through, 0.60},
		{"HAProxy, http", http, through, 0.40},
	}
	ratios := make([][]float64, len(engines))
	for round := range rounds + 1 {
		routing := map[netip.AddrPort]float64{past: w.rate(past), through: w.rate(through)}
		t.Logf("routing: %.0f/s, and with answers through the edge %.0f/s", routing[past], routing[through])
		for i, e := range engines {
			rate := w.rate(e.at)
			if round > 0 { // the first one warms up
				ratios[i] = append(ratios[i], rate/routing[e.routing])
			}
		}
	}
	for i, e := range engines {
		slices.Sort(ratios[i])
		median := ratios[i][rounds/2]
		t.Logf("%s: %.2f of routing (%.2f to %.2f)", e.name, median, ratios[i][0], ratios[i][rounds-1])
		if median < e.least {
			t.Errorf("%s: %.2f of routing, want at least %.2f", e.name, median, e.least)
		}
	}
}

// routed gives the node an address that the client reaches through the edge, which does nothing but route it. Answers go
// to the client past the edge.
func (w *world) routed(to string) netip.Addr {
	w.Helper()
	address := netip.MustParseAddr(to)
	target := edgenet.IPNet(netip.PrefixFrom(address, address.BitLen()))
	node, edge := w.Nodes[0], w.Edges[0]
	lo, err := node.Links.LinkByName("lo")
	w.must(err)
	w.must(node.Links.AddrAdd(lo, &netlink.Addr{IPNet: target}))
	w.must(edge.Links.RouteAdd(&netlink.Route{Dst: target, Gw: node.Inner4.AsSlice()}))
	w.must(w.Client.Links.RouteAdd(&netlink.Route{Dst: target, Gw: edge.Outer4.AsSlice()}))
	return address
}

// answerThroughEdge makes answers from an address of the node go back through the edge.
func (w *world) answerThroughEdge(from netip.Addr) {
	w.Helper()
	const table = 77
	node, edge := w.Nodes[0], w.Edges[0]
	all := edgenet.IPNet(netip.PrefixFrom(netip.IPv4Unspecified(), 0))
	w.must(node.Links.RouteAdd(&netlink.Route{Dst: all, Gw: edge.Inner4.AsSlice(), Table: table}))
	rule := netlink.NewRule()
	rule.Src, rule.Table = edgenet.IPNet(netip.PrefixFrom(from, from.BitLen())), table
	w.must(node.Links.RuleAdd(rule))
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
