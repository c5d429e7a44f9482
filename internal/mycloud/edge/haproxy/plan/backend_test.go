package plan

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
)

// Weights of pools with affinity are stretched as far as the number of members allows, and keep their ratio.
func TestStretchedWeights(t *testing.T) {
	for name, test := range map[string]struct{ members, weight, first, other int }{
		"few members":              {members: 3, weight: 1, first: 64, other: 64},
		"the most":                 {members: 128, weight: 1, first: 64, other: 64},
		"more":                     {members: 129, weight: 1, first: 32, other: 32},
		"many":                     {members: 1000, weight: 1, first: 8, other: 8},
		"many with little weight":  {members: 200, weight: 256, first: 64, other: 1},
		"many with half a weight":  {members: 1000, weight: 2, first: 16, other: 8},
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
			b, _, err := backendOf(Unit{Listener: &config.Listener{Protocol: cloudv1.ProtocolTCP}, Pool: &p}, mostUnits)
			if err != nil {
				t.Fatal(err)
			}
			if first, other := b.Servers[0].Weight, b.Servers[1].Weight; first != test.first || other != test.other {
				t.Errorf("weights are %d and %d, want %d and %d", first, other, test.first, test.other)
			}
		})
	}
}

// hashing returns a listener of a load balancer, whose pool hashes.
func hashing(n, members int) Unit {
	u := served("lb", n, members)
	u.Pool.Algorithm = cloudv1.AlgorithmSourceIP
	return u
}

// A listener that waits for a reload, or is to go, changes no weights of the others.
func TestUnitsOfOthers(t *testing.T) {
	const members = 100
	units := []Unit{hashing(1, members), hashing(2, members)}
	alone, running, _ := planned(units, Running{}, 1<<20)
	waiting, removed := hashing(3, members), hashing(4, members).AsRemoved()
	refused := Refusals{}
	refused.Add(waiting.Key(), errors.New("waits"))
	p := Of(append(units, waiting, removed), noCertificates, running, refused, 1<<20)
	if before, now := alone.Backends[0].Servers[0].Weight, p.Backends[0].Servers[0].Weight; before != now {
		t.Errorf("the weight was %d, is %d", before, now)
	}
}

// However many listeners of a load balancer hash, its members have no more points than it has units, or one unit each.
func TestUnitsOfLoadBalancer(t *testing.T) {
	for name, test := range map[string]struct{ listeners, members, most int }{
		"one listener":           {listeners: 1, members: 100, most: mostUnits},
		"many with few members":  {listeners: 256, members: 2, most: mostUnits},
		"more with many members": {listeners: 64, members: 30, most: mostUnits},
		"many with many members": {listeners: 256, members: 8, most: mostUnits},
	} {
		t.Run(name, func(t *testing.T) {
			var units []Unit
			for n := range test.listeners {
				units = append(units, hashing(n, test.members))
			}
			p, _, servers := planned(units, Running{}, 1<<20)
			if len(p.Faults) > 0 || servers["lb"] != test.listeners*test.members {
				t.Fatalf("%d servers, faults %v", servers["lb"], p.Faults)
			}
			used := 0
			for i := range p.Backends {
				for _, s := range p.Backends[i].Servers {
					used += s.Weight
				}
			}
			if used > test.most || used <= test.most/4 {
				t.Errorf("%d units, want at most %d, and not much less", used, test.most)
			}
		})
	}
}
