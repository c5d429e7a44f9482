//go:build linux

package edgenet

import (
	"fmt"
	"net/netip"
	"strings"
)

// Router is a machine that learns the addresses of load balancers by BGP with BFD, and divides connections among the
// edges that announce one.
type Router struct {
	ID netip.Addr
	// AS and EdgeAS are the autonomous systems of the router and of the edges.
	AS, EdgeAS int
	// Edges are the edges' addresses.
	Edges []netip.Addr
	// Misses is how many packets of BFD, one each 100 ms, an edge may miss before it is lost.
	Misses int
}

// Configure makes the machine divide connections by their ports, and returns the configuration for bird.
func (r Router) Configure(m *Machine) (string, error) {
	if err := m.Sysctl("net.ipv4.fib_multipath_hash_policy", "1"); err != nil {
		return "", err
	}
	var config strings.Builder
	fmt.Fprintf(&config, `router id %s;
protocol device { }
protocol bfd { interface "*" { interval 100 ms; multiplier %d; }; }
protocol kernel { merge paths on; ipv4 { import none; export where source = RTS_BGP; }; }
template bgp edge { local as %d; bfd on; connect delay time 1; connect retry time 2; error wait time 1, 2; }
`, r.ID, r.Misses, r.AS)
	for i, edge := range r.Edges {
		fmt.Fprintf(&config, "protocol bgp edge%d from edge { neighbor %s as %d; ipv4 { import all; export none; }; }\n",
			i+1, edge, r.EdgeAS)
	}
	return config.String(), nil
}
