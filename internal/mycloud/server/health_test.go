package server_test

import (
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// TestHealth merges what edges see with what is desired.
func TestHealth(t *testing.T) {
	c := newWithEdges(t, []string{"edge-1", "edge-2"})
	s := direct("one")
	for _, key := range []string{"b", "c", "d"} {
		s.Pools[0].Members = append(s.Pools[0].Members, cloudv1.Member{
			Key: key, Address: "10.0.0.12", Port: 30080, Weight: 1, State: cloudv1.MemberActive, InstanceID: "i-node-2",
		})
	}
	s.Pools[0].Members[3].State = cloudv1.MemberDraining
	lb, job := c.create(s)
	c.running(job)
	sees := func(edge string, states ...string) {
		t.Helper()
		health := []cloudv1.MemberHealth{}
		for i, state := range states {
			m := cloudv1.MemberHealth{
				LoadBalancerID: lb.ID, PoolKey: "tcp/80", Family: "ipv4", MemberKey: string(rune('a' + i)), State: state,
			}
			if state == cloudv1.OperatingOffline {
				m.Detail = "refused, says " + edge
			}
			health = append(health, m)
		}
		now := must[*cloudv1.Meta](t)(c.client.Meta(t.Context())).Revision
		c.beat(c.ids[edge], cloudv1.Heartbeat{AppliedRevision: now, Health: &health, HealthReset: true})
	}
	expect := func(overall string, states ...string) {
		t.Helper()
		h := must[*cloudv1.Health](t)(c.client.LoadBalancerHealth(t.Context(), lb.ID))
		var got []string
		for _, m := range h.Pools[0].Members {
			got = append(got, m.OperatingState)
		}
		diff(t, "members", states, got)
		diff(t, "operating state", overall, h.OperatingState)
		diff(t, "operating state of the load balancer", overall, c.read(lb.ID).OperatingState)
	}
	const on, off, unknown, draining = "online", "offline", "unknown", "draining"
	sees("edge-1", on, on, on, on)
	sees("edge-2", on, on, on, on)
	c.ended(job)
	expect(on, on, on, on, draining)
	sees("edge-1", on, off, off, off)
	sees("edge-2", off, off, on, off)
	expect("degraded", on, off, on, draining)
	h := must[*cloudv1.Health](t)(c.client.LoadBalancerHealth(t.Context(), lb.ID))
	diff(t, "details", []string{"", "refused, says edge-1"}, []string{h.Pools[0].Members[0].Detail, h.Pools[0].Members[1].Detail})
	sees("edge-1", off, off, off)
	sees("edge-2", off, off, off)
	expect(off, off, off, off, draining)
	sees("edge-1")
	sees("edge-2")
	expect(unknown, unknown, unknown, unknown, draining)

	// Without edges, instances say which members may be online, but it is unknown whether the load balancer serves.
	eventually(t, "both edges are offline", func() bool {
		c.clock.Step(time.Second)
		h := must[*cloudv1.Health](t)(c.client.LoadBalancerHealth(t.Context(), lb.ID))
		return h.Pools[0].Members[0].OperatingState == on
	})
	expect(unknown, on, on, on, draining)
}

// TestMembersWithoutMonitor checks that members that edges do not probe are online, as edges count them, unless their
// instance does not run.
func TestMembersWithoutMonitor(t *testing.T) {
	c := newWithEdges(t, []string{"edge-1"})
	s := direct("one")
	s.Pools[0].HealthMonitor = nil
	lb, job := c.create(s)
	c.running(job)
	c.applied("edge-1")
	c.ended(job)
	diff(t, "operating state", cloudv1.OperatingOnline, c.read(lb.ID).OperatingState)
	must[*cloudv1.Instance](t)(c.client.StopInstance(t.Context(), "i-node-1", cloudapi.WriteOptions{}))
	c.applied("edge-1")
	diff(t, "operating state, if the instance is stopped", cloudv1.OperatingOffline, c.read(lb.ID).OperatingState)
	must[*cloudv1.Instance](t)(c.client.StartInstance(t.Context(), "i-node-1", cloudapi.WriteOptions{}))
	diff(t, "operating state, if the instance runs again", cloudv1.OperatingOnline, c.read(lb.ID).OperatingState)
}

// TestHealthOfOtherZones checks that edges that do not serve the zones of a load balancer say nothing about its members.
func TestHealthOfOtherZones(t *testing.T) {
	c := newWithEdges(t, []string{"edge-1"})
	states := map[string]string{}
	for _, zone := range []string{"eu-1a", "eu-1b"} {
		s := direct(zone)
		s.Zones, s.Pools[0].HealthMonitor, s.Pools[0].Members[0].InstanceID = []string{zone}, nil, ""
		lb, job := c.create(s)
		c.running(job)
		c.applied("edge-1")
		c.ended(job)
		states[zone] = c.read(lb.ID).OperatingState
	}
	diff(t, "operating states", map[string]string{"eu-1a": cloudv1.OperatingOnline, "eu-1b": cloudv1.OperatingUnknown}, states)
}

// TestBehind checks that an edge that does not apply the members of a node group degrades the load balancer.
func TestBehind(t *testing.T) {
	c := newWithEdges(t, []string{"edge-1"})
	group := must[*cloudv1.NodeGroup](t)(c.client.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{
		Name: "nodes", Members: []cloudv1.GroupMember{member("a", "10.0.0.11")},
	}, cloudapi.WriteOptions{}))
	s := direct("one")
	s.Pools[0].NodeGroupID, s.Pools[0].Members = group.ID, nil
	lb, job := c.create(s)
	c.running(job)
	c.applied("edge-1")
	c.ended(job)
	c.applied("edge-1")
	c.wait(time.Minute, "edge-1")
	diff(t, "operating state", cloudv1.OperatingUnknown, c.read(lb.ID).OperatingState)
	must[*cloudv1.NodeGroup](t)(c.client.PatchMembers(t.Context(), group.ID, cloudv1.MembersPatch{
		Upsert: []cloudv1.GroupMember{member("b", "10.0.0.12")},
	}, cloudapi.WriteOptions{IfMatch: group.Revision}))
	c.wait(9*time.Second, "edge-1")
	diff(t, "operating state", cloudv1.OperatingUnknown, c.read(lb.ID).OperatingState)
	c.wait(2*time.Second, "edge-1")
	diff(t, "operating state", cloudv1.OperatingDegraded, c.read(lb.ID).OperatingState)
	c.applied("edge-1")
	diff(t, "operating state", cloudv1.OperatingUnknown, c.read(lb.ID).OperatingState)
}

// TestStats adds up the counters of all edges.
func TestStats(t *testing.T) {
	c := newWithEdges(t, []string{"edge-1", "edge-2"})
	lb, _ := c.create(direct("one"))
	count := func(id, key, family string, n uint64) cloudv1.ListenerCounter {
		return cloudv1.ListenerCounter{
			LoadBalancerID: id, ListenerKey: key, Family: family, Accepted: n, Refused: 2 * n, BytesIn: 3 * n, BytesOut: 4 * n,
		}
	}
	report := func(edge string, counters ...cloudv1.ListenerCounter) {
		t.Helper()
		c.beat(c.ids[edge], cloudv1.Heartbeat{Counters: &counters})
	}
	stats := func() []cloudv1.ListenerCounter {
		t.Helper()
		return must[*cloudv1.Stats](t)(c.client.LoadBalancerStats(t.Context(), lb.ID)).Listeners
	}
	diff(t, "nothing reported", []cloudv1.ListenerCounter{}, stats())
	report("edge-1", count(lb.ID, "tcp/80", "ipv6", 1), count(lb.ID, "tcp/80", "ipv4", 10), count("lb-other", "tcp/80", "ipv4", 5))
	report("edge-2", count(lb.ID, "tcp/80", "ipv4", 100))
	want := []cloudv1.ListenerCounter{count(lb.ID, "tcp/80", "ipv4", 110), count(lb.ID, "tcp/80", "ipv6", 1)}
	diff(t, "sum", want, stats())
	c.beat(c.ids["edge-2"], cloudv1.Heartbeat{})
	diff(t, "sum after a heartbeat without counters", want, stats())
	c.send("GET", "/v1/load-balancers/lb-none/stats", nil).want(t, 404, cloudv1.CodeResourceNotFound)
}

// TestEdgesHearOfMembersAtOnce checks that a change of a node group ends a held request for changes.
func TestEdgesHearOfMembersAtOnce(t *testing.T) {
	c := newCloud(t)
	group := must[*cloudv1.NodeGroup](t)(c.client.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{Name: "nodes"}, cloudapi.WriteOptions{}))
	kinds := []string{cloudv1.KindLoadBalancer, cloudv1.KindNodeGroup, cloudv1.KindEdge, cloudv1.KindCertificate}
	since := must[*cloudv1.Meta](t)(c.client.Meta(t.Context())).Revision
	type told struct {
		changes *cloudv1.Changes
		err     error
		at      time.Time
	}
	heard := make(chan told, 1)
	go func() {
		changes, err := c.client.Changes(t.Context(), since, kinds, time.Minute)
		heard <- told{changes, err, time.Now()}
	}()
	// Heartbeats are no changes.
	e := c.register("edge-1")
	first := <-heard
	if first.err != nil {
		t.Fatal(first.err)
	}
	c.beat(e.ID, cloudv1.Heartbeat{})
	go func() {
		changes, err := c.client.Changes(t.Context(), first.changes.Revision, kinds, time.Minute)
		heard <- told{changes, err, time.Now()}
	}()
	c.beat(e.ID, cloudv1.Heartbeat{})
	select {
	case early := <-heard:
		t.Fatalf("a heartbeat ended the held request: %+v", early)
	case <-time.After(50 * time.Millisecond):
	}
	must[*cloudv1.NodeGroup](t)(c.client.PatchMembers(t.Context(), group.ID, cloudv1.MembersPatch{
		Upsert: []cloudv1.GroupMember{member("a", "10.0.0.11")},
	}, cloudapi.WriteOptions{IfMatch: group.Revision}))
	written := time.Now()
	second := <-heard
	if second.err != nil {
		t.Fatal(second.err)
	}
	diff(t, "changes", []string{"node-group " + group.ID + " upsert"}, short(second.changes))
	if late := second.at.Sub(written); late > time.Second {
		t.Errorf("the edge hears of it after %s", late)
	}
}

// TestPortless checks pools whose members have no port of their own.
func TestPortless(t *testing.T) {
	c := newCloud(t)
	portless := func(edit func(*cloudv1.LoadBalancerSpec)) cloudv1.LoadBalancerSpec {
		s := direct("one")
		s.Pools[0].TargetPort, s.Pools[0].Members[0].Port, s.Pools[0].HealthMonitor.Port = 0, 0, 10256
		edit(&s)
		return s
	}
	lb := c.createLB(portless(func(s *cloudv1.LoadBalancerSpec) {}))
	must[*cloudv1.Health](t)(c.client.LoadBalancerHealth(t.Context(), lb.ID))
	const target = "/pools/0/target_port"
	for name, test := range map[string]struct {
		edit func(*cloudv1.LoadBalancerSpec)
		want []string
	}{
		"http":            {func(s *cloudv1.LoadBalancerSpec) { s.Listeners[0].Protocol, s.Pools[0].Protocol = "http", "http" }, []string{target}},
		"max connections": {func(s *cloudv1.LoadBalancerSpec) { s.Listeners[0].MaxConnections = 5 }, []string{target}},
		"PROXY protocol":  {func(s *cloudv1.LoadBalancerSpec) { s.Listeners[0].ProxyProtocol = "v2" }, []string{target}},
		"mode proxy":      {func(s *cloudv1.LoadBalancerSpec) { s.VIPs[0].Mode = "proxy" }, []string{target}},
		"probe without a port": {
			func(s *cloudv1.LoadBalancerSpec) { s.Pools[0].HealthMonitor.Port = 0 }, []string{"/pools/0/health_monitor/port"},
		},
		"member without a port": {
			func(s *cloudv1.LoadBalancerSpec) { s.Pools[0].TargetPort = 80 }, []string{"/pools/0/members/0/port"},
		},
	} {
		got := c.send("POST", "/v1/load-balancers", portless(test.edit)).want(t, 422, cloudv1.CodeInvalid)
		diff(t, name, test.want, got.pointers())
	}
	s := portless(func(s *cloudv1.LoadBalancerSpec) {
		s.Name, s.Pools[0].TargetPort, s.Pools[0].Members = "two", 80, nil
	})
	lb = c.createLB(s)
	got := must[*cloudv1.MemberBatchResult](t)(c.client.BatchMembers(t.Context(), cloudv1.MemberBatch{
		Operations: []cloudv1.MemberOperation{{
			LoadBalancerID: lb.ID, PoolKey: "tcp/80", Family: "ipv4", IfMatch: lb.Revision, Upsert: direct("x").Pools[0].Members,
		}, {
			LoadBalancerID: lb.ID, PoolKey: "tcp/80", Family: "ipv4", IfMatch: lb.Revision,
			Upsert: []cloudv1.Member{{Key: "p", Address: "10.0.0.12", State: cloudv1.MemberActive}},
		}},
	}, cloudapi.WriteOptions{}))
	diff(t, "statuses", []int{200, 422}, []int{got.Results[0].Status, got.Results[1].Status})
}
