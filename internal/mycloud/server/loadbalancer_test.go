package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server/inventory"
)

func TestTreeRules(t *testing.T) {
	c := newCloud(t)
	type spec = cloudv1.LoadBalancerSpec
	listener := func(s *spec) *cloudv1.Listener { return &s.Listeners[0] }
	monitor := func(s *spec) *cloudv1.HealthMonitor { return s.Pools[0].HealthMonitor }
	tests := map[string]struct {
		edit func(s *spec)
		want []string
	}{
		"valid": {func(*spec) {}, nil},
		"no listeners and no pools": {
			func(s *spec) { s.Listeners, s.Pools = []cloudv1.Listener{}, []cloudv1.Pool{} }, nil,
		},
		"name of 255 characters":       {func(s *spec) { s.Name = strings.Repeat("n", 255) }, nil},
		"name of 256 characters":       {func(s *spec) { s.Name = strings.Repeat("n", 256) }, []string{"/name"}},
		"no name":                      {func(s *spec) { s.Name = "" }, []string{"/name"}},
		"listeners and pools left out": {func(s *spec) { s.Listeners, s.Pools = nil, nil }, []string{"/listeners", "/pools"}},
		"unknown scheme":               {func(s *spec) { s.Scheme = "open" }, []string{"/scheme"}},
		"unknown zone":                 {func(s *spec) { s.Zones = []string{"eu-1a", "eu-9z"} }, []string{"/zones/1"}},
		"two vips of one family":       {func(s *spec) { s.VIPs = append(s.VIPs, s.VIPs[0]) }, []string{"/vips/1/family"}},
		"no pool of the second family": {func(s *spec) {
			s.VIPs = append(s.VIPs, cloudv1.VIP{Family: "ipv6", Mode: "vip"})
		}, []string{"/listeners/0/pool_key"}},
		"no vips and no pool of IPv4": {
			func(s *spec) { s.VIPs, s.Pools[0].Family = nil, "ipv6" }, []string{"/listeners/0/pool_key"},
		},
		"a pool for each family": {func(s *spec) {
			s.VIPs = append(s.VIPs, cloudv1.VIP{Family: "ipv6", Mode: "vip"})
			s.Pools = append(s.Pools, s.Pools[0])
			s.Pools[1].Family = "ipv6"
		}, nil},
		"a pool twice":             {func(s *spec) { s.Pools = append(s.Pools, s.Pools[0]) }, []string{"/pools/1/key"}},
		"pool that does not exist": {func(s *spec) { listener(s).PoolKey = "x" }, []string{"/listeners/0/pool_key"}},
		"key of another port":      {func(s *spec) { listener(s).Key = "tcp/81" }, []string{"/listeners/0/key"}},
		"key of another transport": {func(s *spec) { listener(s).Key = "udp/80" }, []string{"/listeners/0/key"}},
		"malformed key": {
			func(s *spec) { listener(s).Key = "80" }, []string{"/listeners/0/key", "/listeners/0/key"},
		},
		"listener twice": {
			func(s *spec) { s.Listeners = append(s.Listeners, s.Listeners[0]) }, []string{"/listeners/1/key"},
		},
		"tcp and udp on one port": {func(s *spec) {
			l, p := s.Listeners[0], s.Pools[0]
			l.Key, l.Protocol, l.PoolKey = "udp/80", "udp", "udp/80"
			p.Key, p.Protocol = "udp/80", "udp"
			s.Listeners, s.Pools = append(s.Listeners, l), append(s.Pools, p)
		}, nil},
		"udp passed on to http": {
			func(s *spec) { l := listener(s); l.Key, l.Protocol = "udp/80", "udp" }, []string{"/listeners/0/pool_key"},
		},
		"tcp passed on to udp": {
			func(s *spec) { listener(s).Protocol, s.Pools[0].Protocol = "tcp", "udp" }, []string{"/listeners/0/pool_key"},
		},
		"http passed on to udp": {func(s *spec) { s.Pools[0].Protocol = "udp" }, []string{"/listeners/0/pool_key"}},
		"unknown pool protocol": {func(s *spec) { s.Pools[0].Protocol = "sctp" }, []string{"/pools/0/protocol"}},
		"port out of range": {
			func(s *spec) { l := listener(s); l.Port, l.Key = 65536, "tcp/65536" }, []string{"/listeners/0/port"},
		},
		"unknown protocol":          {func(s *spec) { listener(s).Protocol = "http2" }, []string{"/listeners/0/protocol"}},
		"https without certificate": {func(s *spec) { listener(s).Protocol = "https" }, []string{"/listeners/0/tls"}},
		"https with empty list": {func(s *spec) {
			l := listener(s)
			l.Protocol, l.TLS = "https", &cloudv1.TLS{CertificateIDs: []string{}}
		}, []string{"/listeners/0/tls", "/listeners/0/tls/certificate_ids"}},
		"https with certificate": {func(s *spec) {
			l := listener(s)
			l.Protocol, l.TLS = "https", &cloudv1.TLS{CertificateIDs: []string{"cert-1"}}
		}, nil},
		"http with certificate": {
			func(s *spec) { listener(s).TLS = &cloudv1.TLS{CertificateIDs: []string{"cert-1"}} }, []string{"/listeners/0/tls"},
		},
		"PROXY protocol over http": {
			func(s *spec) { listener(s).ProxyProtocol = "v2" }, []string{"/listeners/0/proxy_protocol"},
		},
		"PROXY protocol over tcp": {func(s *spec) { l := listener(s); l.Protocol, l.ProxyProtocol = "tcp", "v2" }, nil},
		"QPS out of range":        {func(s *spec) { listener(s).MaxQPS = 1000001 }, []string{"/listeners/0/max_qps"}},
		"no CIDR": {
			func(s *spec) { listener(s).AllowedCIDRs = []string{"192.0.2.1"} }, []string{"/listeners/0/allowed_cidrs/0"},
		},
		"CIDR with host bits": {
			func(s *spec) { listener(s).AllowedCIDRs = []string{"192.0.2.1/24"} }, []string{"/listeners/0/allowed_cidrs/0"},
		},
		"CIDR twice": {
			func(s *spec) { listener(s).AllowedCIDRs = []string{"192.0.2.0/24", "192.0.2.0/24"} },
			[]string{"/listeners/0/allowed_cidrs/1"},
		},
		"timeout equals interval": {
			func(s *spec) { monitor(s).TimeoutMS = monitor(s).IntervalMS }, []string{"/pools/0/health_monitor/timeout_ms"},
		},
		"no timeout": {
			func(s *spec) { monitor(s).TimeoutMS = 0 }, []string{"/pools/0/health_monitor/timeout_ms"},
		},
		"monitor none needs nothing": {
			func(s *spec) { s.Pools[0].HealthMonitor = &cloudv1.HealthMonitor{Type: "none"} }, nil,
		},
		"path without slash": {
			func(s *spec) { m := monitor(s); m.Type, m.Path = "http", "healthz" }, []string{"/pools/0/health_monitor/path"},
		},
		"path for tcp": {func(s *spec) { monitor(s).Path = "/" }, []string{"/pools/0/health_monitor/path"}},
		"codes for tcp": {
			func(s *spec) { monitor(s).ExpectedCodes = "200" }, []string{"/pools/0/health_monitor/expected_codes"},
		},
		"codes out of order": {
			func(s *spec) { m := monitor(s); m.Type, m.ExpectedCodes = "http", "399-200" },
			[]string{"/pools/0/health_monitor/expected_codes"},
		},
		"malformed codes": {
			func(s *spec) { m := monitor(s); m.Type, m.ExpectedCodes = "http", "2xx" },
			[]string{"/pools/0/health_monitor/expected_codes"},
		},
		"thresholds of zero": {
			func(s *spec) { monitor(s).Rise, monitor(s).Fall = 0, 0 },
			[]string{"/pools/0/health_monitor/fall", "/pools/0/health_monitor/rise"},
		},
		"node group that is unknown": {
			func(s *spec) { s.Pools[0].NodeGroupID = "ng-none" }, []string{"/pools/0/node_group_id"},
		},
		"node group beside members": {func(s *spec) {
			s.Pools[0].NodeGroupID, s.Pools[0].Members = "ng-none", []cloudv1.Member{
				{Key: "a", Address: "10.0.0.1", Port: 1, State: "active"},
			}
		}, []string{"/pools/0/members", "/pools/0/node_group_id"}},
		"unknown zone and invalid scheme": {
			func(s *spec) { s.Scheme, s.Zones = "open", []string{"eu-9z"} }, []string{"/scheme", "/zones/0"},
		},
		"member of the other family": {func(s *spec) {
			s.Pools[0].Members = []cloudv1.Member{{Key: "a", Address: "fd00::1", Port: 1, State: "active"}}
		}, []string{"/pools/0/members/0/address"}},
		"everything at once": {func(s *spec) {
			s.Scheme, s.Tags["a"] = "open", ","
			l := listener(s)
			l.MaxQPS, l.ProxyProtocol, l.AllowedCIDRs = -1, "v1", []string{"x"}
			monitor(s).TimeoutMS = 20000
			s.Zones, s.Pools[0].NodeGroupID = []string{"eu-9z"}, "ng-none"
		}, []string{
			"/listeners/0/allowed_cidrs/0", "/listeners/0/max_qps", "/listeners/0/proxy_protocol", "/pools/0/health_monitor/timeout_ms",
			"/pools/0/node_group_id", "/scheme", "/tags/a", "/zones/0",
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := tree("one")
			test.edit(&s)
			status, code := 204, ""
			if test.want != nil {
				status, code = 422, "invalid"
			}
			validated := c.send("POST", "/v1/load-balancers:validate", s).want(t, status, code)
			got := validated.pointers()
			slices.Sort(got)
			diff(t, "fields at fault", test.want, got)
			if test.want != nil {
				created := c.send("POST", "/v1/load-balancers", s).want(t, 422, "invalid")
				diff(t, "creation and validation agree", validated.problem.Errors, created.problem.Errors)
			}
		})
	}
	none := must[*cloudv1.List[cloudv1.LoadBalancer]](t)(c.client.ListLoadBalancers(t.Context(), cloudapi.ListOptions{}))
	diff(t, "load balancers", 0, len(none.Items))
}

func TestPutIsDeclarative(t *testing.T) {
	c := newCloud(t)
	ctx := t.Context()
	lb := c.createLB(tree("one"))
	put := func(s cloudv1.LoadBalancerSpec) *cloudv1.LoadBalancer {
		t.Helper()
		next, job, err := c.client.UpdateLoadBalancer(ctx, lb.ID, s, cloudapi.WriteOptions{IfMatch: lb.Revision})
		if err != nil || job != "" {
			t.Fatal(job, err)
		}
		return next
	}
	diff(t, "the same again", lb, put(tree("one")))

	s := tree("one")
	s.Listeners[0].Protocol = "tcp"
	s.Pools[0].Protocol = "tcp"
	s.VIPs = append(s.VIPs, cloudv1.VIP{Family: "ipv6", Mode: "vip"})
	s.Pools = append(s.Pools, s.Pools[0])
	s.Pools[1].Family = "ipv6"
	both := put(s)
	if both.Revision == lb.Revision {
		t.Error("a change keeps the revision")
	}
	diff(t, "the vip that stays", lb.VIPs[0], both.VIPs[0])
	if both.VIPs[1].Address == "" || both.VIPs[1].Family != "ipv6" {
		t.Errorf("the vip that comes: %+v", both.VIPs[1])
	}
	lb = both
	s = tree("renamed")
	s.VIPs[0].Mode = "proxy"
	one := put(s)
	diff(
		t, "vips", []cloudv1.VIP{{ID: both.VIPs[0].ID, Family: "ipv4", Address: both.VIPs[0].Address, Mode: "proxy"}},
		one.VIPs,
	)
	lb = one

	s.Scheme, s.Network = "internal", &cloudv1.Network{VPCID: "vpc-main"}
	a := c.send("PUT", "/v1/load-balancers/"+lb.ID, s, "If-Match", `"`+lb.Revision+`"`).want(t, 422, "unsupported")
	diff(t, "fields that cannot change", []string{"/scheme", "/network"}, a.pointers())
	diff(t, "their code", "unsupported", a.problem.Errors[0].Code)
	s.Zones = []string{"eu-9z"}
	a = c.send("PUT", "/v1/load-balancers/"+lb.ID, s, "If-Match", `"`+lb.Revision+`"`).want(t, 422, "invalid")
	diff(t, "fields at fault", []string{"/zones/0", "/scheme", "/network"}, a.pointers())
}

func TestNamesAreUnique(t *testing.T) {
	c := newCloud(t)
	one, two := c.createLB(tree("one")), c.createLB(tree("two"))
	a := c.send("POST", "/v1/load-balancers", tree("one")).want(t, 409, "name-taken")
	diff(t, "who has it", &cloudv1.Reference{Kind: "load-balancer", ID: one.ID}, a.problem.Resource)
	path, match := "/v1/load-balancers/"+two.ID, `"`+two.Revision+`"`
	c.send("PUT", path, tree("one"), "If-Match", match).want(t, 409, "name-taken")
	c.send("PATCH", path, `{"name":"one"}`, "If-Match", match).want(t, 409, "name-taken")
	c.send("PATCH", path, `{"name":"three"}`, "If-Match", match).want(t, 200, "")
	c.createLB(tree("two"))
	c.send("DELETE", "/v1/load-balancers/"+one.ID, nil, "If-Match", `"`+one.Revision+`"`).want(t, 200, "")
	c.createLB(tree("one"))
}

func TestPatchAdoptProtect(t *testing.T) {
	c := newCloud(t)
	ctx := t.Context()
	s := tree("one")
	s.Tags["quaymaster.dev/adopt"] = "c1/default/web"
	lb := c.createLB(s)
	path := "/v1/load-balancers/" + lb.ID
	adopt := map[string]any{
		"tags": map[string]string{"quaymaster.dev/service-uid": "s1", "quaymaster.dev/cluster-uid": "c1"},
	}
	match := []string{"If-Match", `"` + lb.Revision + `"`, "Mycloud-If-Tags", "quaymaster.dev/adopt=c1/default/web"}
	c.send("POST", path+":adopt", adopt).want(t, 428, "precondition-required")
	c.send("POST", path+":adopt", map[string]any{"tags": map[string]string{"quaymaster.dev/cluster-uid": "c2"}}, match...).
		want(t, 409, "conflict")
	adopted := decode[cloudv1.LoadBalancer](t, c.send("POST", path+":adopt", adopt, match...).want(t, 200, ""))
	diff(t, "tags", map[string]string{
		"quaymaster.dev/adopt": "c1/default/web", "quaymaster.dev/service-uid": "s1", "quaymaster.dev/cluster-uid": "c1",
	}, adopted.Tags)

	on, value := true, "v"
	patched, job, err := c.client.PatchLoadBalancer(ctx, lb.ID, cloudv1.LoadBalancerPatch{
		DeletionProtection: &on, Tags: map[string]*string{"quaymaster.dev/adopt": nil, "k": &value},
	}, cloudapi.WriteOptions{IfMatch: adopted.Revision})
	if err != nil || job != "" {
		t.Fatal(job, err)
	}
	diff(
		t, "tags", map[string]string{"k": "v", "quaymaster.dev/service-uid": "s1", "quaymaster.dev/cluster-uid": "c1"},
		patched.Tags,
	)
	diff(t, "the tree", lb.Listeners, patched.Listeners)

	_, err = c.client.DeleteLoadBalancer(ctx, lb.ID, cloudapi.WriteOptions{IfMatch: patched.Revision})
	if !cloudapi.HasCode(err, cloudv1.CodeProtected) {
		t.Errorf("deletion of a protected load balancer: %v", err)
	}
	on = false
	patched, _, err = c.client.PatchLoadBalancer(
		ctx, lb.ID, cloudv1.LoadBalancerPatch{DeletionProtection: &on}, cloudapi.WriteOptions{IfMatch: patched.Revision},
	)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.client.DeleteLoadBalancer(ctx, lb.ID, cloudapi.WriteOptions{IfMatch: patched.Revision}); err != nil {
		t.Error(err)
	}
	if _, err := c.client.LoadBalancer(ctx, lb.ID); !cloudapi.IsNotFound(err) {
		t.Errorf("after the deletion: %v", err)
	}
}

func TestAddresses(t *testing.T) {
	inv := exampleInventory(t)
	inv.AddressPools = []inventory.AddressPool{{Scheme: "public", CIDR: "203.0.113.0/30"}}
	c := newCloud(t, withInventory(inv))
	a, b := c.createLB(tree("a")), c.createLB(tree("b"))
	diff(t, "addresses", []string{"203.0.113.1", "203.0.113.2"}, []string{a.VIPs[0].Address, b.VIPs[0].Address})
	full := c.send("POST", "/v1/load-balancers", tree("c")).want(t, 503, "capacity")
	if full.header.Get("Retry-After") == "" || !full.problem.Retryable {
		t.Errorf("capacity: %v %+v", full.header, full.problem)
	}
	s := tree("c")
	s.Scheme = "internal"
	c.send("POST", "/v1/load-balancers", s).want(t, 503, "capacity")
	c.send("DELETE", "/v1/load-balancers/"+a.ID, nil, "If-Match", `"`+a.Revision+`"`).want(t, 200, "")
	diff(t, "the address that became free", "203.0.113.1", c.createLB(tree("c")).VIPs[0].Address)
}

func TestAddressesRest(t *testing.T) {
	c := newCloud(t)
	seen := map[string]bool{}
	for i := range 3 {
		lb := c.createLB(tree(fmt.Sprint(i)))
		if seen[lb.VIPs[0].Address] {
			t.Errorf("%s is used again at once", lb.VIPs[0].Address)
		}
		seen[lb.VIPs[0].Address] = true
		c.send("DELETE", "/v1/load-balancers/"+lb.ID, nil, "If-Match", `"`+lb.Revision+`"`).want(t, 200, "")
	}
}

func TestListWithoutTrees(t *testing.T) {
	c := newCloud(t)
	c.createLB(tree("one"))
	type list = cloudv1.List[cloudv1.LoadBalancer]
	bare := decode[list](t, c.send("GET", "/v1/load-balancers", nil).want(t, 200, ""))
	whole := decode[list](t, c.send("GET", "/v1/load-balancers?expand=tree", nil).want(t, 200, ""))
	if bare.Items[0].Listeners != nil || bare.Items[0].Pools != nil {
		t.Errorf("a list without expand=tree has the tree: %+v", bare.Items[0])
	}
	diff(t, "listeners", tree("one").Listeners, whole.Items[0].Listeners)
}

// TestAddressPoolsAreState restarts clouds with other inventories. No address in use may be lost or handed out twice.
func TestAddressPoolsAreState(t *testing.T) {
	pools := func(cidrs ...string) setting {
		inv := exampleInventory(t)
		inv.AddressPools = nil
		for _, cidr := range cidrs {
			inv.AddressPools = append(inv.AddressPools, inventory.AddressPool{Scheme: "public", CIDR: cidr})
		}
		return withInventory(inv)
	}
	c := newCloud(t, pools("203.0.113.0/30"))
	a := c.createLB(tree("a"))
	diff(t, "address", "203.0.113.1", a.VIPs[0].Address)
	restart := func(s setting) {
		c.stop()
		c = newCloud(t, withDir(c.dir), s)
		now := must[*cloudv1.LoadBalancer](t)(c.client.LoadBalancer(t.Context(), a.ID))
		diff(t, "address after a restart", a.VIPs, now.VIPs)
	}
	restart(withInventory(nil))
	diff(t, "without an inventory", "203.0.113.2", c.createLB(tree("b")).VIPs[0].Address)
	// The new pool overlaps the old one.
	restart(pools("203.0.113.0/29"))
	diff(t, "from a larger pool", "203.0.113.3", c.createLB(tree("c")).VIPs[0].Address)
	restart(pools("198.51.100.0/30", "203.0.113.0/30"))
	for _, want := range []string{"203.0.113.4", "203.0.113.5", "203.0.113.6", "198.51.100.1"} {
		diff(t, "in the order in which pools were added", want, c.createLB(tree(want)).VIPs[0].Address)
	}
}

// TestWriteWhatWasRead sends back a load balancer as it was read, with a field that the server does not know.
func TestWriteWhatWasRead(t *testing.T) {
	c := newCloud(t)
	lb := c.createLB(tree("one"))
	path := "/v1/load-balancers/" + lb.ID
	whole := decode[map[string]any](t, c.send("GET", path, nil).want(t, 200, ""))
	whole["from_the_future"] = map[string]any{"a": 1}
	whole["listeners"].([]any)[0].(map[string]any)["from_the_future"] = true
	put := decode[cloudv1.LoadBalancer](t, c.send("PUT", path, whole, "If-Match", lb.Revision).want(t, 200, ""))
	diff(t, "the load balancer, with its revision", *lb, put)
}
