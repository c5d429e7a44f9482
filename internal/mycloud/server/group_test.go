package server_test

import (
	"strings"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

func TestNodeGroups(t *testing.T) {
	c := newCloud(t)
	ctx := t.Context()
	g := must[*cloudv1.NodeGroup](t)(c.client.CreateNodeGroup(ctx, cloudv1.NodeGroupSpec{
		Name: "default", Members: []cloudv1.GroupMember{member("b", "10.0.0.12"), member("a", "10.0.0.11")},
	}, cloudapi.WriteOptions{}))
	patch := func(p cloudv1.MembersPatch) *cloudv1.NodeGroup {
		t.Helper()
		return must[*cloudv1.NodeGroup](t)(c.client.PatchMembers(ctx, g.ID, p, cloudapi.WriteOptions{IfMatch: g.Revision}))
	}
	same := patch(cloudv1.MembersPatch{Upsert: []cloudv1.GroupMember{member("a", "10.0.0.11")}, Remove: []string{"none"}})
	diff(t, "a change that changes nothing", g, same)
	reordered := must[*cloudv1.NodeGroup](t)(c.client.UpdateNodeGroup(ctx, g.ID, cloudv1.NodeGroupSpec{
		Name: "default", Members: []cloudv1.GroupMember{member("a", "10.0.0.11"), member("b", "10.0.0.12")},
	}, cloudapi.WriteOptions{IfMatch: g.Revision}))
	diff(t, "another order", g, reordered)

	g = patch(cloudv1.MembersPatch{
		Upsert: []cloudv1.GroupMember{member("c", "10.0.0.13"), member("a", "10.0.0.21")}, Remove: []string{"b"},
	})
	diff(t, "members", []cloudv1.GroupMember{member("a", "10.0.0.21"), member("c", "10.0.0.13")}, g.Members)

	// One invalid member fails the whole change.
	bad := map[string]any{
		"upsert": []cloudv1.GroupMember{member("d", "10.0.0.14"), member("e", "fd00::1"), member("d", "10.0.0.15")},
		"remove": []string{"d"},
	}
	a := c.send("PATCH", "/v1/node-groups/"+g.ID+"/members", bad, "If-Match", `"`+g.Revision+`"`).want(t, 422, "invalid")
	diff(t, "fields at fault", []string{"/upsert/1/addresses/0/address", "/upsert/2/key", "/remove/0"}, a.pointers())
	now := must[*cloudv1.NodeGroup](t)(c.client.NodeGroup(ctx, g.ID))
	diff(t, "after the refused change", g, now)

	s := tree("one")
	s.Pools[0].NodeGroupID = g.ID
	lb := c.createLB(s)
	a = c.send("DELETE", "/v1/node-groups/"+g.ID, nil, "If-Match", `"`+g.Revision+`"`).want(t, 409, "conflict")
	diff(t, "who refers to it", &cloudv1.Reference{Kind: "load-balancer", ID: lb.ID}, a.problem.Resource)
	if _, err := c.client.DeleteLoadBalancer(ctx, lb.ID, cloudapi.WriteOptions{IfMatch: lb.Revision}); err != nil {
		t.Fatal(err)
	}
	c.send("DELETE", "/v1/node-groups/"+g.ID, nil, "If-Match", `"`+g.Revision+`"`).want(t, 200, "")
	c.send("GET", "/v1/node-groups/"+g.ID, nil).want(t, 404, "resource-not-found")
}

func TestNamesOfNodeGroupsAreUnique(t *testing.T) {
	c := newCloud(t)
	create := func(name string) *cloudv1.NodeGroup {
		t.Helper()
		return must[*cloudv1.NodeGroup](t)(
			c.client.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{Name: name}, cloudapi.WriteOptions{}),
		)
	}
	one, two := create("one"), create("two")
	path, match := "/v1/node-groups/"+two.ID, []string{"If-Match", `"` + two.Revision + `"`}
	for name, a := range map[string]answer{
		"creation": c.send("POST", "/v1/node-groups", `{"name":"one"}`),
		"dry run":  c.send("POST", "/v1/node-groups?dry_run=true", `{"name":"one"}`),
		"rename":   c.send("PUT", path, `{"name":"one"}`, match...),
	} {
		a.want(t, 409, "name-taken")
		diff(t, "who has it, "+name, &cloudv1.Reference{Kind: "node-group", ID: one.ID}, a.problem.Resource)
	}
	c.send("PUT", path, `{"name":"two","tags":{"a":"b"}}`, match...).want(t, 200, "")
	c.send("DELETE", "/v1/node-groups/"+one.ID, nil, "If-Match", `"`+one.Revision+`"`).want(t, 200, "")
	two = must[*cloudv1.NodeGroup](t)(c.client.NodeGroup(t.Context(), two.ID))
	c.send("PUT", path, `{"name":"one"}`, "If-Match", `"`+two.Revision+`"`).want(t, 200, "")
	create("two")
}

func TestHealthFollowsInstances(t *testing.T) {
	c := newCloud(t)
	ctx := t.Context()
	s := tree("one")
	lb := c.createLB(s)
	// state returns the operating states of the members and of the load balancer.
	state := func() (states []string) {
		t.Helper()
		got := must[*cloudv1.LoadBalancer](t)(c.client.LoadBalancer(ctx, lb.ID))
		health := must[*cloudv1.Health](t)(c.client.LoadBalancerHealth(ctx, lb.ID))
		diff(t, "object and health agree", got.OperatingState, health.OperatingState)
		for _, m := range health.Pools[0].Members {
			states = append(states, m.OperatingState)
		}
		return append(states, got.OperatingState)
	}
	diff(t, "without members", []string{"no_members"}, state())
	one, two, gone := member("n1", "10.0.0.11"), member("n2", "10.0.0.12"), member("n9", "10.0.0.19")
	one.InstanceID, two.InstanceID, gone.InstanceID = "i-node-1", "i-node-2", "i-none"
	gone.State = cloudv1.MemberDraining
	g := must[*cloudv1.NodeGroup](t)(
		c.client.CreateNodeGroup(
			ctx, cloudv1.NodeGroupSpec{Name: "g", Members: []cloudv1.GroupMember{one, two, gone}}, cloudapi.WriteOptions{},
		),
	)
	s.Pools[0].NodeGroupID = g.ID
	lb, _, err := c.client.UpdateLoadBalancer(ctx, lb.ID, s, cloudapi.WriteOptions{IfMatch: lb.Revision})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "both run", []string{"online", "online", "draining", "unknown"}, state())
	must[*cloudv1.Instance](t)(c.client.StopInstance(ctx, "i-node-1", cloudapi.WriteOptions{}))
	diff(t, "one is stopped", []string{"offline", "online", "draining", "unknown"}, state())
	must[*cloudv1.Instance](t)(c.client.DeleteInstance(ctx, "i-node-2", cloudapi.WriteOptions{}))
	diff(t, "the other is deleted", []string{"offline", "offline", "draining", "unknown"}, state())
	must[*cloudv1.Instance](t)(c.client.StartInstance(ctx, "i-node-1", cloudapi.WriteOptions{}))
	diff(t, "one runs again", []string{"online", "offline", "draining", "unknown"}, state())

	health := must[*cloudv1.Health](t)(c.client.LoadBalancerHealth(ctx, lb.ID))
	diff(t, "members", []cloudv1.PoolHealth{{Key: "tcp/80", Family: "ipv4", Members: []cloudv1.Member{
		{
			Key: "n1", Address: "10.0.0.11", Port: 30080, Weight: 1,
			State: "active", InstanceID: "i-node-1", OperatingState: "online",
		},
		{
			Key: "n2", Address: "10.0.0.12", Port: 30080, Weight: 1,
			State: "active", InstanceID: "i-node-2", OperatingState: "offline",
		},
		{
			Key: "n9", Address: "10.0.0.19", Port: 30080, Weight: 1,
			State: "draining", InstanceID: "i-none", OperatingState: "draining",
		},
	}}}, health.Pools)
	now := must[*cloudv1.LoadBalancer](t)(c.client.LoadBalancer(ctx, lb.ID))
	diff(t, "revision: an observation is no change", lb.Revision, now.Revision)
}

// TestObjectsAreBounded checks that an object that grows with many requests stays small enough for clients to read.
func TestObjectsAreBounded(t *testing.T) {
	c := newCloud(t)
	group := must[*cloudv1.NodeGroup](t)(
		c.client.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{Name: "nodes"}, cloudapi.WriteOptions{}))
	for i := range 4 {
		one := member(string(rune('a'+i)), "10.0.0.11")
		one.Zone = strings.Repeat("z", 7<<20)
		got := c.send("PATCH", "/v1/node-groups/"+group.ID+"/members", cloudv1.MembersPatch{Upsert: []cloudv1.GroupMember{one}},
			"If-Match", `"`+group.Revision+`"`)
		if i < 3 {
			group = new(decode[cloudv1.NodeGroup](t, got.want(t, 200, "")))
			continue
		}
		if got.want(t, 422, cloudv1.CodeInvalid); !strings.Contains(got.problem.Detail, "must be at most 25165824") {
			t.Errorf("detail: %s", got.problem.Detail)
		}
	}
}
