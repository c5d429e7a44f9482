package edge_test

import (
	"net/netip"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// Whatever the engine, a load balancer answers as soon as it is active, and both nodes get their share.
func TestTraffic(t *testing.T) {
	w := newWorld(t, 1, 2)
	for name, test := range map[string]struct {
		spec cloudv1.LoadBalancerSpec
		// keeps is true if the node sees the client's address.
		keeps bool
	}{
		"direct, tcp": {w.spec("direct-tcp", cloudv1.ProtocolTCP, 80), true},
		"direct, udp": {w.spec("direct-udp", cloudv1.ProtocolUDP, 53), true},
		"proxy, tcp":  {w.spec("proxy-tcp", cloudv1.ProtocolTCP, 80, mode(cloudv1.VIPModeProxy)), false},
		"nat, udp":    {w.spec("nat-udp", cloudv1.ProtocolUDP, 53, mode(cloudv1.VIPModeProxy)), false},
	} {
		t.Run(name, func(t *testing.T) {
			_, at := w.create(test.spec)
			protocol := test.spec.Pools[0].Protocol
			nodes := map[string]int{}
			for range 40 {
				node, client, err := w.ask(protocol, at)
				if err != nil {
					t.Fatal(err)
				}
				nodes[node]++
				from, err := netip.ParseAddrPort(client)
				if err != nil {
					t.Fatal(err)
				}
				if keeps := from.Addr().Unmap() == w.Client.Outer4; keeps != test.keeps {
					t.Fatalf("the node saw the client as %s", client)
				}
			}
			if len(nodes) != 2 {
				t.Errorf("answers from %v, want both nodes", nodes)
			}
		})
	}
}
