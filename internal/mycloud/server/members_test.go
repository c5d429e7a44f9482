package server_test

import (
	"net/netip"
	"strings"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server"
)

// TestMemberAddresses checks to which addresses edges may send traffic and probes.
func TestMemberAddresses(t *testing.T) {
	c := newCloud(t, func(o *server.Options) {
		o.MemberNetworks = []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16"), netip.MustParsePrefix("fd00:9::/64")}
		o.ProtectedNetworks = []netip.Prefix{netip.MustParsePrefix("10.9.0.1/32")}
	})
	own := c.createLB(direct("own")).VIPs[0].Address
	pool := direct("pool")
	pool.Pools[0].Members = nil
	lb := c.createLB(pool)
	group := must[*cloudv1.NodeGroup](t)(
		c.client.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{Name: "nodes"}, cloudapi.WriteOptions{}))
	spec := cloudv1.EdgeSpec{Name: "edge-1", Token: ownToken("edge-1"), EdgeFields: cloudv1.EdgeFields{Addresses: []string{"10.9.0.2"}}}
	must[*cloudv1.Edge](t)(c.registration.RegisterEdge(t.Context(), spec, cloudapi.WriteOptions{}))
	for address, want := range map[string]string{
		"10.0.0.11": "", "10.9.0.7": "", "fd00:9::7": "",
		"127.0.0.1": "one host", "0.0.0.0": "one host", "0.1.2.3": "one host", "169.254.169.254": "one host",
		"224.0.0.18": "one host", "255.255.255.255": "one host", "250.1.2.3": "one host", "::": "one host", "::1": "one host",
		"fe80::1": "one host", "ff02::1": "one host", "::ffff:127.0.0.1": "one host", "::ffff:10.9.0.7": "one host",
		"::127.0.0.1": "one host", own: "address pool", "203.0.113.200": "address pool", "2001:db8:1::7": "address pool",
		"10.9.0.2": `edge; 10.9.0.2 is that of "edge-1"`, "10.9.0.1": "protected network",
		"10.0.0.99": "address of an instance, or in one of the networks [10.9.0.0/16 fd00:9::/64]", "fd00:8:1::1": "address of an instance",
	} {
		family := cloudv1.FamilyIPv4
		if strings.Contains(address, ":") {
			family = cloudv1.FamilyIPv6
		}
		s := direct("x")
		s.VIPs[0].Family, s.Pools[0].Family = family, family
		s.Pools[0].Members[0].Address = address
		one := member("a", address)
		one.Addresses[0].Family = family
		batch := cloudv1.MemberBatch{Operations: []cloudv1.MemberOperation{{
			LoadBalancerID: lb.ID, PoolKey: "tcp/80", Family: family, IfMatch: lb.Revision, Upsert: s.Pools[0].Members,
		}}}
		for _, call := range []struct {
			method, path string
			body         any
			pointer      string
		}{
			{"POST", "/v1/load-balancers:validate", s, "/pools/0/members/0/address"},
			{"POST", "/v1/load-balancers?dry_run=true", s, "/pools/0/members/0/address"},
			{"POST", "/v1/node-groups?dry_run=true", cloudv1.NodeGroupSpec{Name: "x", Members: []cloudv1.GroupMember{one}}, "/members/0/addresses/0/address"},
			{"PUT", "/v1/node-groups/" + group.ID + "?dry_run=true", cloudv1.NodeGroupSpec{Name: "x", Members: []cloudv1.GroupMember{one}}, "/members/0/addresses/0/address"},
			{"PATCH", "/v1/node-groups/" + group.ID + "/members?dry_run=true", cloudv1.MembersPatch{Upsert: []cloudv1.GroupMember{one}}, "/upsert/0/addresses/0/address"},
			{"POST", "/v1/member-batches?dry_run=true", batch, "/upsert/0/address"},
		} {
			var headers []string
			if call.method != "POST" {
				headers = []string{"If-Match", `"` + group.Revision + `"`}
			}
			got := c.send(call.method, call.path, call.body, headers...)
			problems := got.problem.Errors
			if strings.Contains(call.path, "batches") && got.status == 200 {
				if family == cloudv1.FamilyIPv6 {
					continue
				}
				if result := decode[cloudv1.MemberBatchResult](t, got).Results[0]; result.Error != nil {
					problems = result.Error.Errors
				}
			}
			switch {
			case want == "" && len(problems) > 0:
				t.Errorf("%s %s with %s: %+v", call.method, call.path, address, problems)
			case want != "" && (len(problems) != 1 || !strings.HasSuffix(problems[0].Pointer, call.pointer) || !strings.Contains(problems[0].Detail, want)):
				t.Errorf("%s %s with %s: %d %+v, want %q at %s", call.method, call.path, address, got.status, problems, want, call.pointer)
			}
		}
	}
}

// TestMembersStay checks that a member whose instance was deleted does not make updates of its load balancer and node group
// fail, and that it cannot be added to others.
func TestMembersStay(t *testing.T) {
	c := newCloud(t, func(o *server.Options) { o.MemberNetworks = nil })
	lb := c.createLB(direct("one"))
	group := must[*cloudv1.NodeGroup](t)(c.client.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{
		Name: "nodes", Members: []cloudv1.GroupMember{member("a", "10.0.0.11")},
	}, cloudapi.WriteOptions{}))
	c.send("DELETE", "/v1/instances/i-node-1", nil).want(t, 200, "")
	s := direct("one")
	s.Listeners[0].MaxQPS = 7
	c.send("PUT", "/v1/load-balancers/"+lb.ID, s, "If-Match", `"`+lb.Revision+`"`).want(t, 200, "")
	c.send("PUT", "/v1/node-groups/"+group.ID, cloudv1.NodeGroupSpec{
		Name: "nodes", Members: []cloudv1.GroupMember{member("a", "10.0.0.11"), member("b", "10.0.0.12")},
	}, "If-Match", `"`+group.Revision+`"`).want(t, 200, "")
	c.send("POST", "/v1/load-balancers", direct("two")).want(t, 422, cloudv1.CodeInvalid)
}

// TestCloudWithoutInstances checks that a cloud that manages no machines accepts members, but not everywhere.
func TestCloudWithoutInstances(t *testing.T) {
	inv := exampleInventory(t)
	inv.Instances, inv.Volumes = nil, nil
	c := newCloud(t, withInventory(inv), func(o *server.Options) { o.MemberNetworks = nil })
	s := direct("one")
	c.createLB(s)
	for _, address := range []string{"127.0.0.1", "203.0.113.1"} {
		s.Pools[0].Members[0].Address = address
		c.send("POST", "/v1/load-balancers", s).want(t, 422, cloudv1.CodeInvalid)
	}
}
