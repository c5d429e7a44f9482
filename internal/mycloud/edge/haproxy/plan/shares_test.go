package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
)

// poolOf returns a pool of a load balancer that is only probed.
func poolOf(loadBalancer string, n, members int) Unit {
	p := &config.Pool{
		ID:        config.PoolID{LoadBalancer: loadBalancer, Key: fmt.Sprintf("tcp/%d", n), Family: "ipv4"},
		Algorithm: "round_robin", Monitor: &config.Monitor{Type: "tcp", Interval: time.Second},
	}
	for i := range members {
		p.Members = append(p.Members, config.Member{
			Key: fmt.Sprint(i), Address: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), Port: 80, Weight: 1,
		})
	}
	return Unit{Pool: p}
}

// served returns a listener of a load balancer with an address of its own, and its pool.
func served(loadBalancer string, n, members int) Unit {
	u := poolOf(loadBalancer, n, members)
	u.Listener = &config.Listener{
		LoadBalancer: loadBalancer, Key: u.Pool.ID.Key, Protocol: cloudv1.ProtocolTCP, Engine: config.Proxy,
		Address: netip.AddrFrom4([4]byte{203, 0, 113, loadBalancer[0]}), Port: uint16(1 + n), Pool: u.Pool.ID,
	}
	return u
}

// planned returns the plan of units, what runs by it, and how many servers each load balancer has.
func planned(units []Unit, running Running, files int) (*Plan, Running, map[string]int) {
	p := Of(slices.Clone(units), noCertificates, running, Refusals{}, files)
	now, servers := Running{map[string]Unit{}, p.Sizes()}, map[string]int{}
	for _, u := range p.Units {
		now.Units[u.Key()] = u
	}
	for i := range p.Backends {
		servers[p.Backends[i].Pool.ID.LoadBalancer] += len(p.Backends[i].Servers)
	}
	return p, now, servers
}

// Whatever some load balancers ask for, HAProxy gets no more servers than it can load in time, and has checks for those of
// others, which are there or grow.
func TestSharesOfServersAndChecks(t *testing.T) {
	const most = 1000
	for name, tt := range map[string]struct{ files, others, all int }{
		"servers": {1 << 20, 200, ownServers*3 + commonProbed + 200*10},
		"checks":  {30_000, 200, 30_000 / filesPerCheck},
	} {
		t.Run(name, func(t *testing.T) {
			var units []Unit
			for i := range tt.others {
				units = append(units, poolOf(fmt.Sprintf("other-%d", i), 80, 5))
			}
			p, running, _ := planned(units, Running{}, tt.files)
			if len(p.Faults) > 0 {
				t.Fatalf("faults %v", p.Faults)
			}
			for n := range 64 {
				for _, greedy := range []string{"greedy-1", "greedy-2", "greedy-3"} {
					units = append(units, poolOf(greedy, n, most))
				}
			}
			_, running, _ = planned(units, running, tt.files)
			for i := range tt.others {
				units[i] = poolOf(units[i].LoadBalancer(), 80, 10)
			}
			p, running, servers := planned(units, running, tt.files)
			all := 0
			for n := range maps.Values(servers) {
				all += n
			}
			if all > tt.all {
				t.Errorf("%d servers, want at most %d", all, tt.all)
			}
			for i := range tt.others {
				if id := units[i].LoadBalancer(); servers[id] != 10 {
					t.Fatalf("%s has %d servers, want 10", id, servers[id])
				}
			}
			for _, f := range p.Faults {
				if !strings.HasPrefix(f.LoadBalancerID, "greedy") || !strings.Contains(f.Detail, "left for the load balancer") {
					t.Fatalf("fault %v", f)
				}
			}
			if servers["greedy-1"] == 0 || len(p.Faults) == 0 {
				t.Errorf("%d servers of a greedy load balancer, %d faults", servers["greedy-1"], len(p.Faults))
			}
			// More load balancers make the part of each smaller, but none loses what it has.
			for i := range 2000 {
				units = append(units, poolOf(fmt.Sprintf("late-%d", i), 80, 1))
			}
			if _, _, now := planned(units, running, tt.files); now["greedy-1"] != servers["greedy-1"] || now["other-7"] != 10 {
				t.Errorf("%d and %d servers are left of %d and 10", now["greedy-1"], now["other-7"], servers["greedy-1"])
			}
		})
	}
}

// An agent that starts does not know which units HAProxy runs, but how many servers they have: those go on, although others
// come before them.
func TestSharesAfterStart(t *testing.T) {
	var units []Unit
	for _, loadBalancer := range []string{"x", "y", "z"} {
		for n := range 5 {
			units = append(units, served(loadBalancer, n, 1000))
		}
	}
	_, running, before := planned(units, Running{}, 1<<20)
	if want := map[string]int{"x": 2000, "y": 2000}; !maps.Equal(before, want) {
		t.Fatalf("servers %v, want %v", before, want)
	}
	running.Units = nil
	slices.Reverse(units)
	after := map[string]int{}
	for _, b := range Of(units, noCertificates, running, Refusals{}, 1<<20).Backends {
		after[b.Pool.ID.LoadBalancer] += len(b.Servers)
	}
	if !maps.Equal(after, before) {
		t.Errorf("servers after the start %v, before %v", after, before)
	}
}

// A load balancer with too many members for its intervals is checked less often, others are not.
func TestPaceOfChecks(t *testing.T) {
	c := &config.Config{}
	for id, members := range map[string]int{"few": 100, "most": mostChecks, "more": mostChecks + 1, "many": 5 * mostChecks} {
		u := poolOf(id, 80, members)
		c.Pools = append(c.Pools, *u.Pool)
	}
	intervals := map[string]time.Duration{}
	for _, u := range Units(c) {
		intervals[u.LoadBalancer()] = u.Pool.Monitor.Interval
	}
	want := map[string]time.Duration{"few": time.Second, "most": time.Second, "more": 2 * time.Second, "many": 8 * time.Second}
	if !maps.Equal(intervals, want) {
		t.Errorf("intervals %v, want %v", intervals, want)
	}
	if c.Pools[0].Monitor.Interval != time.Second {
		t.Error("the configuration was changed")
	}
}

// A load balancer that moves its listeners to pools of their own has no more servers for that than any other.
func TestSharesOfOtherPools(t *testing.T) {
	var before, after []Unit
	for n := range 8 {
		u := served("x", 0, 1000)
		u.Listener.Key, u.Listener.Port = fmt.Sprint("tcp/", n), uint16(1+n)
		before, after = append(before, u), append(after, served("x", n, 1000))
	}
	_, running, servers := planned(before, Running{}, 1<<20)
	if servers["x"] != 1000 {
		t.Fatalf("%d servers, want those of one pool", servers["x"])
	}
	p, _, servers := planned(after, running, 1<<20)
	if most := ownServers + commonServers/2; servers["x"] > most || len(p.Faults) == 0 || len(p.Units) != len(before) {
		t.Errorf("%d servers for %d listeners, want at most %d; faults %v", servers["x"], len(p.Units), most, p.Faults)
	}
}

// A listener that waits to use a different pool leaves the one that it has as its other listeners want it.
func TestPoolOfWaitingListener(t *testing.T) {
	moving, staying := served("x", 0, 10), served("x", 0, 10)
	moving.Listener.Key, moving.Listener.Port = "tcp/a", 100
	staying.Listener.Key, staying.Listener.Port = "tcp/b", 101
	_, running, _ := planned([]Unit{moving, staying}, Running{}, 1<<20)
	moved, grown := served("x", 1, 3), served("x", 0, 11)
	moved.Listener.Key, moved.Listener.Port = "tcp/a", 100
	grown.Listener.Key, grown.Listener.Port = "tcp/b", 101
	refused := Refusals{}
	refused.Add(moved.Key(), &WaitingError{"waits"})
	p := Of([]Unit{moved, grown}, noCertificates, running, refused, 1<<20)
	if len(p.Backends) != 1 || len(p.Backends[0].Servers) != 11 || p.backendOf[moved.Key()] != p.backendOf[grown.Key()] {
		t.Errorf("backends %v with %d servers, want one with 11", p.backendOf, len(p.Backends[0].Servers))
	}
}

// A load balancer whose members have become more than its share keeps what it has, also when the agent or HAProxy starts
// again: no listener stops for what was refused.
func TestGrowthAfterStart(t *testing.T) {
	units := []Unit{served("a", 0, ownServers+commonServers/2), served("b", 0, ownServers+commonServers/2), served("x", 0, ownServers)}
	_, running, _ := planned(units, Running{}, 1<<20)
	units[2] = served("x", 0, ownServers)
	more := config.Member{Key: "more", Address: netip.MustParseAddr("10.1.0.1"), Port: 80, Weight: 1}
	units[2].Pool.Members = append([]config.Member{more}, units[2].Pool.Members...)
	for _, name := range []string{"grown", "started again", "and again"} {
		var p *Plan
		var servers map[string]int
		p, running, servers = planned(units, running, 1<<20)
		if servers["x"] != ownServers || len(p.Units) != 3 || len(p.Faults) != 1 || p.Faults[0].LoadBalancerID != "x" {
			t.Errorf("%s: %d listeners, %d servers, faults %v", name, len(p.Units), servers["x"], p.Faults)
		}
		for _, b := range p.Backends {
			if slices.ContainsFunc(b.Servers, func(s Server) bool { return s.Member == more }) {
				t.Errorf("%s: a new member takes the place of one that runs", name)
			}
		}
		running.Units = nil
	}
}

// Checks that were refused are refused when the agent starts again, too.
func TestChecksAfterStart(t *testing.T) {
	const files = 6000
	unit := func(monitor bool) Unit {
		u := served("x", 0, 2000)
		if !monitor {
			u.Pool.Monitor = nil
		}
		return u
	}
	_, running, _ := planned([]Unit{unit(false)}, Running{}, files)
	for _, name := range []string{"monitor added", "started again"} {
		p, _, servers := planned([]Unit{unit(true)}, running, files)
		checked := p.Sizes()[unit(true).Backend()].Checked
		if checked || servers["x"] != 2000 || len(p.Units) != 1 || len(p.Faults) != 1 {
			t.Errorf("%s: %d servers, checked %t, faults %v", name, servers["x"], checked, p.Faults)
		}
		running.Units = nil
	}
}

// What runs counts before anything new, also if its load balancer asks for more than it gets.
func TestRefusedGrowthHidesNothing(t *testing.T) {
	const most = ownServers + commonServers/2
	running := Running{}
	for n := range 4 {
		// New pools come before those that run.
		var units []Unit
		for i := range n + 1 {
			u := served("x", 3-n+i, most)
			if i > 0 {
				u.Pool.Members = append(u.Pool.Members, config.Member{Key: "more", Address: netip.MustParseAddr("10.1.0.1"), Port: 80, Weight: 1})
			}
			units = append(units, u)
		}
		var p *Plan
		var servers map[string]int
		p, running, servers = planned(units, running, 1<<20)
		if servers["x"] > most || len(p.Units) != 1 {
			t.Errorf("step %d: %d servers of %d listeners, want at most %d", n, servers["x"], len(p.Units), most)
		}
	}
}

// A load balancer may have for a different pool what it gives up for it.
func TestMoveWithinShare(t *testing.T) {
	const most = ownServers + commonServers/2
	before, after := served("x", 0, most), served("x", 0, most)
	after.Listener.ProxyProtocol = cloudv1.ProxyProtocolV1
	_, running, _ := planned([]Unit{before}, Running{}, 1<<20)
	p, _, servers := planned([]Unit{after}, running, 1<<20)
	if len(p.Faults) > 0 || servers["x"] != most || p.backendOf[after.Key()] != after.Backend() {
		t.Errorf("%d servers of %v, faults %v", servers["x"], p.backendOf, p.Faults)
	}
}

// A new listener waits for a reload, although its pool runs and has grown.
func TestNewListenerOfGrownPoolWaits(t *testing.T) {
	_, running, _ := planned([]Unit{served("x", 0, 10)}, Running{}, 1<<20)
	grown, added := served("x", 0, 11), served("x", 0, 11)
	added.Listener.Key, added.Listener.Port = "tcp/a", 100
	refused := Refusals{}
	refused.Add(added.Key(), &WaitingError{"waits"})
	p := Of([]Unit{added, grown}, noCertificates, running, refused, 1<<20)
	if len(p.Units) != 1 || p.Units[0].Key() != grown.Key() {
		t.Errorf("units %v, want the one that runs", p.Units)
	}
}

// A listener that waits to leave a pool that nothing else uses has the members of the one that it wants.
func TestPoolThatIsLeft(t *testing.T) {
	_, running, _ := planned([]Unit{served("x", 0, 10)}, Running{}, 1<<20)
	moved := served("x", 1, 3)
	moved.Listener.Key, moved.Listener.Port = "tcp/0", 1
	refused := Refusals{}
	refused.Add(moved.Key(), &WaitingError{"waits"})
	p := Of([]Unit{moved}, noCertificates, running, refused, 1<<20)
	if len(p.Backends) != 1 || len(p.Backends[0].Servers) != 3 || p.Backends[0].Name != served("x", 0, 0).Backend() {
		t.Errorf("backends %+v, want the former one with three members", p.Backends)
	}
}
