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

// planned returns the plan of units, the units as they are accepted by it, and how many servers each load balancer has.
func planned(units []Unit, accepted map[string]Unit, files int) (*Plan, map[string]Unit, map[string]int) {
	p := Of(slices.Clone(units), noCertificates, Running{Units: accepted}, Refusals{}, files)
	now, servers := map[string]Unit{}, map[string]int{}
	for _, u := range p.Units {
		now[u.Key()] = u
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
			p, accepted, _ := planned(units, nil, tt.files)
			if len(p.Faults) > 0 {
				t.Fatalf("faults %v", p.Faults)
			}
			for n := range 64 {
				for _, greedy := range []string{"greedy-1", "greedy-2", "greedy-3"} {
					units = append(units, poolOf(greedy, n, most))
				}
			}
			_, accepted, _ = planned(units, accepted, tt.files)
			for i := range tt.others {
				units[i] = poolOf(units[i].LoadBalancer(), 80, 10)
			}
			p, accepted, servers := planned(units, accepted, tt.files)
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
			if _, _, now := planned(units, accepted, tt.files); now["greedy-1"] != servers["greedy-1"] || now["other-7"] != 10 {
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
	p, _, before := planned(units, nil, 1<<20)
	if want := map[string]int{"x": 2000, "y": 2000}; !maps.Equal(before, want) {
		t.Fatalf("servers %v, want %v", before, want)
	}
	running := Running{Servers: map[string]int{}}
	for i := range p.Backends {
		running.Servers[p.Backends[i].Name] = len(p.Backends[i].Servers)
	}
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
