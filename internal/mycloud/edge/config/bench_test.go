package config_test

import (
	"fmt"
	"slices"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/internal/mycloud/edge/state"
)

// grouped returns a state with load balancers whose pools, of different ports, all have a node group of that many members.
func grouped(loadBalancers, members int) *state.State {
	return world(func(s *state.State, lb *cloudv1.LoadBalancer) {
		group := &cloudv1.NodeGroup{}
		for i := range members {
			group.Members = append(group.Members, cloudv1.GroupMember{
				Key: fmt.Sprintf("node-%d", i), Weight: 1, State: cloudv1.MemberActive,
				Addresses: []cloudv1.MemberAddress{{Family: v4, Address: fmt.Sprintf("10.0.%d.%d", i>>8, i&255)}},
			})
		}
		s.NodeGroups["ng-1"] = group
		delete(s.LoadBalancers, lb.ID)
		for i := range loadBalancers {
			next := *lb
			next.ID = fmt.Sprintf("lb-%d", i)
			next.VIPs = []cloudv1.VIP{{Family: v4, Address: fmt.Sprintf("203.0.%d.%d", i>>8, i&255), Mode: cloudv1.VIPModeVIP}}
			next.Pools = slices.Clone(lb.Pools)
			next.Pools[0].TargetPort = int32(30000 + i)
			s.LoadBalancers[next.ID] = &next
		}
	})
}

// A node group takes memory once, however many pools have it.
func TestPoolsOfGroupShareMembers(t *testing.T) {
	c, faults := config.Compile(grouped(3, 100), nil, config.Options{})
	if len(faults) > 0 || len(c.Pools) != 3 {
		t.Fatalf("faults %v, %d pools", faults, len(c.Pools))
	}
	for i := range c.Pools {
		p := &c.Pools[i]
		if len(p.Members) != 100 || &p.Members[0] != &c.Pools[0].Members[0] || p.PortOf(p.Members[0]) != uint16(30000+i) {
			t.Errorf("pool %d has %d members of its own with port %d", i, len(p.Members), p.PortOf(p.Members[0]))
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, loadBalancers := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("loadbalancers=%d", loadBalancers), func(b *testing.B) {
			s := grouped(loadBalancers, 1000)
			b.ReportAllocs()
			for b.Loop() {
				config.Compile(s, nil, config.Options{})
			}
		})
	}
}
