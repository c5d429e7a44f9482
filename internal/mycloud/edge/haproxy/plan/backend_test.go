package plan

import (
	"fmt"
	"net/netip"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
)

// Weights of pools with affinity are stretched as far as the number of members allows, and keep their ratio.
func TestStretchedWeights(t *testing.T) {
	for name, test := range map[string]struct{ members, weight, first, other int }{
		"few members":              {members: 3, weight: 1, first: 256, other: 256},
		"the most":                 {members: 64, weight: 1, first: 256, other: 256},
		"more":                     {members: 65, weight: 1, first: 128, other: 128},
		"many":                     {members: 1000, weight: 1, first: 16, other: 16},
		"many with little weight":  {members: 200, weight: 256, first: 256, other: 1},
		"many with half a weight":  {members: 1000, weight: 2, first: 32, other: 16},
		"more than there is units": {members: 1 << 15, weight: 1, first: 1, other: 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := config.Pool{Algorithm: cloudv1.AlgorithmSourceIP}
			for i := range test.members {
				m := config.Member{Key: fmt.Sprint(i), Address: netip.MustParseAddr("127.0.0.1"), Port: 80, Weight: 1}
				if i == 0 {
					m.Weight = test.weight
				}
				p.Members = append(p.Members, m)
			}
			b, _, err := backendOf(Unit{Listener: &config.Listener{Protocol: cloudv1.ProtocolTCP}, Pool: &p})
			if err != nil {
				t.Fatal(err)
			}
			if first, other := b.Servers[0].Weight, b.Servers[1].Weight; first != test.first || other != test.other {
				t.Errorf("weights are %d and %d, want %d and %d", first, other, test.first, test.other)
			}
		})
	}
}
