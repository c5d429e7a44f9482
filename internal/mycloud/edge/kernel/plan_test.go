//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
)

// world is a configuration with one listener and two members.
func world() *config.Config {
	id := config.PoolID{LoadBalancer: "lb-1", Key: "tcp/80", Family: cloudv1.FamilyIPv4}
	return &config.Config{
		Addresses: []netip.Addr{netip.MustParseAddr("203.0.113.9")},
		Listeners: []config.Listener{{
			LoadBalancer: "lb-1", Key: "tcp/80", Address: netip.MustParseAddr("203.0.113.9"), Port: 80,
			Protocol: cloudv1.ProtocolTCP, Engine: config.Direct, Pool: id,
		}},
		Pools: []config.Pool{{
			ID: id, Protocol: cloudv1.ProtocolTCP, Algorithm: cloudv1.AlgorithmRoundRobin, Drain: time.Minute,
			Members: []config.Member{
				{Key: "a", Address: netip.MustParseAddr("10.0.0.1"), Port: 8080, Weight: 1},
				{Key: "b", Address: netip.MustParseAddr("10.0.0.2"), Port: 8080, Weight: 1},
			},
		}},
	}
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestPlanMembers(t *testing.T) {
	const a, b = markPrefix | 1, markPrefix | 2
	tests := map[string]struct {
		change     func(c *config.Config)
		sick       string
		after      time.Duration
		open, kept []uint32
		due        time.Time
		faults     int
	}{
		"all healthy": {open: []uint32{a, b}, kept: []uint32{a, b}},
		// It may be about to leave.
		"one unhealthy": {sick: "b", open: []uint32{a}, kept: []uint32{a, b}, due: noon.Add(illness)},
		"one unhealthy, udp": {
			change: func(c *config.Config) { c.Listeners[0].Protocol = cloudv1.ProtocolUDP },
			sick:   "b", open: []uint32{a}, kept: []uint32{a},
		},
		"one unhealthy without drain": {
			change: func(c *config.Config) { c.Pools[0].Drain = 0 }, sick: "b", open: []uint32{a}, kept: []uint32{a},
		},
		"one drains":      {change: func(c *config.Config) { c.Pools[0].Members[1].Draining = true }, open: []uint32{a}, kept: []uint32{a, b}},
		"one drains long": {change: func(c *config.Config) { c.Pools[0].Members[1].Draining = true }, after: time.Hour, open: []uint32{a}, kept: []uint32{a, b}},
		"one drains and fails its probes": {
			change: func(c *config.Config) { c.Pools[0].Members[1].Draining = true }, sick: "b", open: []uint32{a}, kept: []uint32{a, b},
		},
		"one drains and fails its probes, udp": {
			change: func(c *config.Config) {
				c.Pools[0].Members[1].Draining = true
				c.Listeners[0].Protocol = cloudv1.ProtocolUDP
			},
			sick: "b", open: []uint32{a}, kept: []uint32{a},
		},
		"one left": {
			change: func(c *config.Config) { c.Pools[0].Members = c.Pools[0].Members[:1] },
			open:   []uint32{a}, kept: []uint32{a, b}, due: noon.Add(time.Minute),
		},
		"one left without drain": {
			change: func(c *config.Config) { c.Pools[0].Members, c.Pools[0].Drain = c.Pools[0].Members[:1], 0 },
			open:   []uint32{a}, kept: []uint32{a},
		},
		"all left": {
			change: func(c *config.Config) { c.Pools[0].Members = nil }, kept: []uint32{a, b}, due: noon.Add(time.Minute),
		},
		"unreachable": {
			change: func(c *config.Config) { c.Pools[0].Members[1].Address = netip.MustParseAddr("192.0.2.1") },
			open:   []uint32{a}, kept: []uint32{a, b}, due: noon.Add(time.Minute), faults: 1,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := planner{
				healthy: func(_ config.PoolID, key string) bool { return true }, now: noon, before: newMemory(),
				reachable: func(address netip.Addr, _ bool) error {
					if !netip.MustParsePrefix("10.0.0.0/8").Contains(address) {
						return errors.New("behind a router")
					}
					return nil
				},
			}
			r.before = r.plan(world()).memory
			r.now = noon.Add(tt.after)
			r.healthy = func(_ config.PoolID, key string) bool { return key != tt.sick }
			c := world()
			if tt.change != nil {
				tt.change(c)
			}
			p := r.plan(c)
			s := p.services[0]
			if !slices.Equal(s.marks(), tt.open) || !slices.Equal(s.kept, tt.kept) {
				t.Errorf("open %x, kept %x, want %x and %x", s.marks(), s.kept, tt.open, tt.kept)
			}
			if !p.due.Equal(tt.due) || len(p.faults) != tt.faults {
				t.Errorf("due %v, faults %v, want %v and %d", p.due, p.faults, tt.due, tt.faults)
			}
			// Nothing has changed, so nothing changes.
			r.before = p.memory
			if diff := cmp.Diff(p.memory, r.plan(c).memory); diff != "" {
				t.Errorf("a second plan differs (-first +second):\n%s", diff)
			}
		})
	}
}

func TestPlanEndsDrain(t *testing.T) {
	r := planner{
		healthy: func(config.PoolID, string) bool { return true }, reachable: func(netip.Addr, bool) error { return nil },
		now: noon, before: newMemory(),
	}
	r.before = r.plan(world()).memory
	c := world()
	c.Pools[0].Members = c.Pools[0].Members[1:]
	r.before = r.plan(c).memory
	r.now = noon.Add(time.Minute)
	p := r.plan(c)
	if got, want := p.services[0].kept, []uint32{markPrefix | 2}; !slices.Equal(got, want) || !p.due.IsZero() {
		t.Errorf("after the drain time, kept %x, due %v, want %x and never", got, p.due, want)
	}
}

// A clock that is set back does not make a drain longer.
func TestPlanDrainAndClock(t *testing.T) {
	r := planner{
		healthy: func(config.PoolID, string) bool { return true }, reachable: func(netip.Addr, bool) error { return nil },
		now: noon, before: newMemory(),
	}
	r.before = r.plan(world()).memory
	c := world()
	c.Pools[0].Members = c.Pools[0].Members[1:]
	r.before = r.plan(c).memory
	r.now = noon.AddDate(0, 0, -7)
	if p := r.plan(c); !p.due.Equal(r.now.Add(time.Minute)) {
		t.Errorf("the drain ends at %v, a minute after %v", p.due, r.now)
	}
}

// Members beyond the share of a load balancer, or beyond the number of marks, are faults; they get none of others, and
// others keep theirs.
func TestPlanMarks(t *testing.T) {
	r := planner{
		healthy: func(config.PoolID, string) bool { return true }, reachable: func(netip.Addr, bool) error { return nil },
		now: noon, before: newMemory(),
	}
	c := &config.Config{}
	// balancer adds a load balancer with members on ports from 1 on.
	balancer := func(members int) {
		one := world()
		n := len(c.Listeners)
		l, p := one.Listeners[0], one.Pools[0]
		l.LoadBalancer, l.Engine, l.Port = fmt.Sprint("lb-", n), config.NAT, uint16(80+n)
		l.Pool.LoadBalancer, p.Drain, p.Members = l.LoadBalancer, 0, nil
		p.ID = l.Pool
		for port := range members {
			p.Members = append(p.Members, config.Member{
				Key: fmt.Sprint(port), Address: netip.AddrFrom4([4]byte{10, 1, 0, byte(n)}), Port: uint16(port + 1), Weight: 1,
			})
		}
		c.Listeners, c.Pools = append(c.Listeners, l), append(c.Pools, p)
	}
	for range maxMarks / maxShare {
		balancer(maxShare + 2)
	}
	p := r.plan(c)
	distinct := map[uint32]bool{}
	for _, s := range p.services {
		if len(s.marks()) != maxShare {
			t.Errorf("%s has %d marks, want %d", s.id, len(s.marks()), maxShare)
		}
		for _, m := range s.marks() {
			distinct[m] = true
			if m&markMask != markPrefix {
				t.Fatalf("mark %#x", m)
			}
		}
	}
	if want := len(p.services) * maxShare; len(distinct) != want || len(p.faults) != 2*len(p.services) {
		t.Fatalf("%d distinct marks, %d faults, want %d and %d", len(distinct), len(p.faults), want, 2*len(p.services))
	}
	// One more load balancer gets what is left.
	left := maxMarks - len(distinct)
	balancer(left + 3)
	r.before = p.memory
	p = r.plan(c)
	if got := len(p.services[len(p.services)-1].marks()); got != left || len(p.faults) != 2*(len(p.services)-1)+3 {
		t.Errorf("the last one has %d marks, want %d; %d faults", got, left, len(p.faults))
	}
	// Marks that are free again are for others, but not those of listeners that are planned later.
	for i := range c.Pools[:8] {
		c.Pools[i].Members = c.Pools[i].Members[:1]
	}
	r.before = r.plan(c).memory
	if want := 8 + left; len(r.before.Marks) > want+3 || len(r.before.Marks) < want {
		t.Errorf("%d marks, want about %d", len(r.before.Marks), want)
	}
	c.Pools[0].Members = world().Pools[0].Members
	if p = r.plan(c); len(p.faults) != 0 {
		t.Errorf("faults %v", p.faults)
	}
}

func TestPlanFaults(t *testing.T) {
	tests := map[string]struct {
		change   func(c *config.Config)
		services int
		want     string
	}{
		"name": {
			func(c *config.Config) { c.Listeners[0].LoadBalancer = `lb"1` }, 0,
			`the name "lb\"1/tcp/80/ipv4" has characters other than letters, digits, and . _ / -`,
		},
		"protocol": {
			func(c *config.Config) { c.Listeners[0].Protocol = cloudv1.ProtocolHTTP }, 0,
			`protocol "http" must be tcp or udp without a proxy`,
		},
		"max connections": {
			func(c *config.Config) { c.Listeners[0].MaxConnections = 5 }, 0,
			"max connections and the PROXY protocol need the proxy",
		},
		"port taken": {
			func(c *config.Config) {
				c.Listeners = append(c.Listeners, c.Listeners[0])
				c.Listeners[1].Key = "tcp/other"
			}, 1, "tcp port 80 of 203.0.113.9 is already served for load balancer lb-1",
		},
		"no member port": {
			func(c *config.Config) { c.Listeners[0].Engine, c.Pools[0].Members[1].Port = config.NAT, 0 }, 1,
			"member b: has no port, which only direct forwarding can do without",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := planner{
				healthy: func(config.PoolID, string) bool { return true }, reachable: func(netip.Addr, bool) error { return nil },
				now: noon, before: newMemory(),
			}
			c := world()
			tt.change(c)
			p := r.plan(c)
			if len(p.services) != tt.services || len(p.faults) != 1 || p.faults[0].Detail != tt.want {
				t.Errorf("%d services, faults %v, want %d and %q", len(p.services), p.faults, tt.services, tt.want)
			}
		})
	}
}

func TestMerged(t *testing.T) {
	prefix := netip.MustParsePrefix
	got := merged([]netip.Prefix{prefix("10.1.0.0/16"), prefix("10.0.0.0/8"), prefix("9.1.2.3/24"), prefix("10.0.0.0/8")})
	if want := []netip.Prefix{prefix("9.1.2.0/24"), prefix("10.0.0.0/8")}; !slices.Equal(got, want) {
		t.Errorf("merged %v, want %v", got, want)
	}
	if merged(nil) != nil || merged([]netip.Prefix{}) == nil {
		t.Error("no ranges and no restriction are the same")
	}
}

func TestRate(t *testing.T) {
	for perSecond, want := range map[float64]string{
		1: "1/second burst 1 packets", 100: "100/second burst 8 packets", 2000: "2000/second burst 160 packets",
		0.5: "30/minute burst 1 packets", 100.0 / 3: "120000/hour burst 3 packets", 0.0001: "1/hour burst 1 packets",
	} {
		if got := rate(perSecond); got != want {
			t.Errorf("%v per second: %q, want %q", perSecond, got, want)
		}
	}
}

// Others wait while the tables of a load balancer are built: however many listeners with weights it has, they take as long
// as a few, and the tables of others stay the same.
func TestUnitsHaveAShare(t *testing.T) {
	c := world()
	c.Pools[0].Algorithm, c.Pools[0].Members[0].Weight = cloudv1.AlgorithmWeightedRoundRobin, 7
	for i := range 256 {
		l, p := c.Listeners[0], c.Pools[0]
		l.LoadBalancer, l.Key, l.Address, l.Port = "lb-2", fmt.Sprint("tcp/", i+1), l.Address.Next(), uint16(i+1)
		p.ID.LoadBalancer, p.ID.Key = l.LoadBalancer, l.Key
		l.Pool = p.ID
		c.Listeners, c.Pools = append(c.Listeners, l), append(c.Pools, p)
	}
	p := (&planner{
		healthy: func(config.PoolID, string) bool { return true }, reachable: func(netip.Addr, bool) error { return nil },
		now: noon, before: newMemory(),
	}).plan(c)
	units := map[string]int{}
	for _, s := range p.services {
		units[s.id.loadBalancer] += s.units
	}
	if units["lb-1"] != maxUnits || units["lb-2"] > sharedUnits || units["lb-2"] < sharedUnits/2 {
		t.Errorf("units %v, want %d and at most %d", units, maxUnits, sharedUnits)
	}
}
