package config_test

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/internal/mycloud/edge/state"
)

const (
	v4 = cloudv1.FamilyIPv4
	v6 = cloudv1.FamilyIPv6
)

// world returns a state with two nodes and a load balancer lb-1 that listens on tcp/80, after edits.
func world(edits ...func(s *state.State, lb *cloudv1.LoadBalancer)) *state.State {
	s := state.New()
	s.Revision = "7"
	s.NodeGroups["ng-1"] = &cloudv1.NodeGroup{Members: []cloudv1.GroupMember{
		{Key: "node-2", Weight: 1, State: cloudv1.MemberActive, Addresses: []cloudv1.MemberAddress{{Family: v4, Address: "10.0.0.2"}}},
		{Key: "node-1", Weight: 1, State: cloudv1.MemberActive, Addresses: []cloudv1.MemberAddress{
			{Family: v6, Address: "fd00::1"}, {Family: v4, Address: "10.0.0.1"},
		}},
	}}
	lb := &cloudv1.LoadBalancer{Object: cloudv1.Object{ID: "lb-1"}, LoadBalancerFields: cloudv1.LoadBalancerFields{
		VIPs: []cloudv1.VIP{{Family: v4, Address: "203.0.113.1", Mode: cloudv1.VIPModeVIP}},
		Listeners: []cloudv1.Listener{{
			Key: "tcp/80", Protocol: cloudv1.ProtocolTCP, Port: 80, PoolKey: "tcp/80", MaxQPS: 100, IdleTimeoutMS: 60_000,
			ProxyProtocol: cloudv1.ProxyProtocolNone,
		}},
		Pools: []cloudv1.Pool{{
			Key: "tcp/80", Family: v4, Protocol: cloudv1.ProtocolTCP, Algorithm: cloudv1.AlgorithmRoundRobin,
			TargetPort: 30080, NodeGroupID: "ng-1", DrainTimeoutS: 30,
			HealthMonitor: &cloudv1.HealthMonitor{Type: cloudv1.ProtocolTCP, IntervalMS: 10_000, TimeoutMS: 5000, Rise: 2, Fall: 3},
		}},
	}}
	s.LoadBalancers["lb-1"] = lb
	for _, edit := range edits {
		edit(s, lb)
	}
	return s
}

func TestCompile(t *testing.T) {
	c, faults := config.Compile(world(), nil, config.Options{Name: "edge-1"})
	pool := config.PoolID{LoadBalancer: "lb-1", Key: "tcp/80", Family: v4}
	want := &config.Config{
		Addresses: []netip.Addr{netip.MustParseAddr("203.0.113.1")},
		Listeners: []config.Listener{{
			LoadBalancer: "lb-1", Key: "tcp/80", Address: netip.MustParseAddr("203.0.113.1"), Port: 80, Protocol: "tcp",
			Engine: config.Direct, Pool: pool, MaxQPS: 100, IdleTimeout: time.Minute,
		}},
		Pools: []config.Pool{{
			ID: pool, Protocol: "tcp", Algorithm: "round_robin", Drain: 30 * time.Second, Port: 30080,
			Members: []config.Member{
				{Key: "node-1", Address: netip.MustParseAddr("10.0.0.1"), Weight: 1},
				{Key: "node-2", Address: netip.MustParseAddr("10.0.0.2"), Weight: 1},
			},
			Monitor: &config.Monitor{
				Type: "tcp", Port: 30080, Interval: 10 * time.Second, Timeout: 5 * time.Second, Rise: 2, Fall: 3,
			},
		}},
	}
	if len(faults) > 0 || !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v and faults %v, want %+v", c, faults, want)
	}
}

// one compiles a world and returns its only listener.
func one(t *testing.T, o config.Options, edits ...func(*state.State, *cloudv1.LoadBalancer)) config.Listener {
	t.Helper()
	c, faults := config.Compile(world(edits...), nil, o)
	if len(faults) > 0 || len(c.Listeners) != 1 {
		t.Fatalf("got %d listeners and faults %v", len(c.Listeners), faults)
	}
	return c.Listeners[0]
}

func TestEngine(t *testing.T) {
	type edit = func(*state.State, *cloudv1.LoadBalancer)
	listener := func(change func(*cloudv1.Listener)) edit {
		return func(_ *state.State, lb *cloudv1.LoadBalancer) { change(&lb.Listeners[0]) }
	}
	proxyMode := func(_ *state.State, lb *cloudv1.LoadBalancer) { lb.VIPs[0].Mode = cloudv1.VIPModeProxy }
	for name, test := range map[string]struct {
		edits []edit
		nat   bool
		want  config.Engine
	}{
		"tcp":                     {want: config.Direct},
		"udp":                     {edits: []edit{listener(func(l *cloudv1.Listener) { l.Protocol = "udp" })}, want: config.Direct},
		"on another link":         {nat: true, want: config.NAT},
		"http":                    {edits: []edit{listener(func(l *cloudv1.Listener) { l.Protocol = "http" })}, want: config.Proxy},
		"https":                   {edits: []edit{listener(func(l *cloudv1.Listener) { l.Protocol = "https" })}, want: config.Proxy},
		"proxy protocol":          {edits: []edit{listener(func(l *cloudv1.Listener) { l.ProxyProtocol = "v2" })}, nat: true, want: config.Proxy},
		"max connections":         {edits: []edit{listener(func(l *cloudv1.Listener) { l.MaxConnections = 9 })}, want: config.Proxy},
		"mode proxy":              {edits: []edit{proxyMode}, want: config.Proxy},
		"mode proxy, with udp":    {edits: []edit{proxyMode, listener(func(l *cloudv1.Listener) { l.Protocol = "udp" })}, want: config.NAT},
		"udp and max connections": {edits: []edit{listener(func(l *cloudv1.Listener) { l.Protocol, l.MaxConnections = "udp", 9 })}, want: config.Direct},
	} {
		t.Run(name, func(t *testing.T) {
			if got := one(t, config.Options{Name: "edge-1", NAT: test.nat}, test.edits...).Engine; got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestActiveEdgesShareLimits(t *testing.T) {
	edges := func(s *state.State, lb *cloudv1.LoadBalancer) {
		lb.Listeners[0].MaxConnections = 5
		for name, state := range map[string]string{
			"edge-1": cloudv1.EdgeOffline, "edge-2": cloudv1.EdgeActive, "edge-3": cloudv1.EdgeOffline, "edge-4": cloudv1.EdgeActive,
		} {
			s.Edges["e-"+name] = &cloudv1.Edge{
				Object: cloudv1.Object{Name: name}, State: state, EdgeFields: cloudv1.EdgeFields{Draining: name == "edge-4"},
			}
		}
	}
	// The edge itself counts, whatever the cloud has last heard of it; those that leave do not.
	if l := one(t, config.Options{Name: "edge-1", Shared: true}, edges); l.MaxQPS != 50 || l.MaxConnections != 3 {
		t.Errorf("got %v requests per second and %d connections, want 50 and 3", l.MaxQPS, l.MaxConnections)
	}
	if l := one(t, config.Options{Name: "edge-1"}, edges); l.MaxQPS != 100 || l.MaxConnections != 5 {
		t.Errorf("alone: got %v requests per second and %d connections, want 100 and 5", l.MaxQPS, l.MaxConnections)
	}
}

// Edges that do not serve a load balancer, because they are in another zone, take no part of its limits.
func TestEdgesOfOtherZonesShareNothing(t *testing.T) {
	for name, test := range map[string]struct {
		zones []string
		want  float64
	}{
		"of one zone":  {[]string{"a"}, 50},
		"of two zones": {[]string{"a", "b"}, 25},
		"of all zones": {nil, 20},
	} {
		got := one(t, config.Options{Name: "a-1", Zone: "a", Shared: true}, func(s *state.State, lb *cloudv1.LoadBalancer) {
			lb.Zones = test.zones
			for name, zone := range map[string]string{"a-1": "a", "b-1": "b", "b-2": "b", "c-1": "c", "any": ""} {
				s.Edges[name] = &cloudv1.Edge{
					Object: cloudv1.Object{Name: name}, State: cloudv1.EdgeActive, EdgeFields: cloudv1.EdgeFields{Zone: zone},
				}
			}
		}).MaxQPS
		if got != test.want {
			t.Errorf("%s: %v requests per second, want %v", name, got, test.want)
		}
	}
}

func TestSources(t *testing.T) {
	for name, test := range map[string]struct {
		cidrs, want []string
	}{
		"all":                     {},
		"of the family":           {[]string{"10.1.0.0/16", "fd00::/8", "10.0.0.0/16"}, []string{"10.0.0.0/16", "10.1.0.0/16"}},
		"only the other family's": {[]string{"fd00::/8"}, []string{"0.0.0.0/32"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := one(t, config.Options{}, func(_ *state.State, lb *cloudv1.LoadBalancer) { lb.Listeners[0].AllowedCIDRs = test.cidrs })
			var got []string
			for _, prefix := range l.Allowed {
				got = append(got, prefix.String())
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// What is wrong with one listener leaves out that listener and nothing else.
func TestFaults(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(s *state.State, lb *cloudv1.LoadBalancer)
		nat  bool
		want cloudv1.EdgeFault
	}{
		"no pool": {
			edit: func(_ *state.State, lb *cloudv1.LoadBalancer) { lb.Listeners[0].PoolKey = "x" },
			want: cloudv1.EdgeFault{LoadBalancerID: "lb-1", ListenerKey: "tcp/80", Detail: `there is no pool "x" of family ipv4`},
		},
		"no node group": {
			edit: func(s *state.State, _ *cloudv1.LoadBalancer) { delete(s.NodeGroups, "ng-1") },
			want: cloudv1.EdgeFault{LoadBalancerID: "lb-1", ListenerKey: "tcp/80", Detail: `pool "tcp/80": there is no node group ng-1`},
		},
		"no target port": {
			edit: func(_ *state.State, lb *cloudv1.LoadBalancer) { lb.Pools[0].TargetPort = 0 }, nat: true,
			want: cloudv1.EdgeFault{
				LoadBalancerID: "lb-1", ListenerKey: "tcp/80",
				Detail: `pool "tcp/80" has no target port, which only edges that forward directly can do without`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			good := world().LoadBalancers["lb-1"]
			good.ID, good.VIPs[0].Address = "lb-2", "203.0.113.2"
			// Members of its own, so that it does not depend on the group.
			good.Pools[0].NodeGroupID = ""
			c, faults := config.Compile(world(test.edit, func(s *state.State, _ *cloudv1.LoadBalancer) {
				s.LoadBalancers["lb-2"] = good
			}), nil, config.Options{NAT: test.nat})
			if len(faults) != 1 || faults[0] != test.want {
				t.Errorf("got %+v, want %+v", faults, test.want)
			}
			if len(c.Listeners) != 1 || c.Listeners[0].LoadBalancer != "lb-2" {
				t.Errorf("got listeners %+v, want that of lb-2", c.Listeners)
			}
		})
	}
}

func TestNotCarried(t *testing.T) {
	for name, edit := range map[string]func(*state.State, *cloudv1.LoadBalancer){
		"being deleted": func(_ *state.State, lb *cloudv1.LoadBalancer) {
			lb.ProvisioningState = cloudv1.ProvisioningPendingDelete
		},
		"another zone": func(_ *state.State, lb *cloudv1.LoadBalancer) { lb.Zones = []string{"b", "c"} },
	} {
		t.Run(name, func(t *testing.T) {
			c, faults := config.Compile(world(edit), nil, config.Options{Zone: "a"})
			if len(c.Listeners)+len(c.Addresses)+len(c.Pools)+len(faults) > 0 {
				t.Errorf("got %+v and faults %v, want nothing", c, faults)
			}
		})
	}
}

func TestMembers(t *testing.T) {
	c, _ := config.Compile(world(func(s *state.State, _ *cloudv1.LoadBalancer) {
		s.NodeGroups["ng-1"].Members[0].State = cloudv1.MemberDraining
		s.NodeGroups["ng-1"].Members[1].Weight = 0
	}), nil, config.Options{})
	for _, m := range c.Pools[0].Members {
		if !m.Draining {
			t.Errorf("member %s gets new connections", m.Key)
		}
	}
}
