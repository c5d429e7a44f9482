package config_test

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/edge/config"
	"quaymaster.dev/internal/mycloud/edge/state"
)

// An edge does not answer for addresses that are not for load balancers, whatever the cloud says.
func TestAddresses(t *testing.T) {
	options := config.Options{
		Pools: []netip.Prefix{
			netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8::/64"), netip.MustParsePrefix("0.0.0.0/0"),
			netip.MustParsePrefix("fe80::/10"),
		},
		Reserved: map[netip.Addr]string{netip.MustParseAddr("203.0.113.9"): "the machine itself"},
		API:      []netip.Addr{netip.MustParseAddr("203.0.113.10")},
		Members:  []netip.Prefix{netip.MustParsePrefix("203.0.113.10/32"), netip.MustParsePrefix("0.0.0.0/0")},
	}
	for name, test := range map[string]struct{ family, address, want string }{
		"good":                {v4, "203.0.113.1", ""},
		"none":                {v4, "", "not an IP address"},
		"another family":      {v6, "203.0.113.1", "not an IP address of family ipv6"},
		"with a zone":         {v6, "fe80::1%x; include \"/etc/passwd\"", "not an IP address"},
		"outside the pools":   {v6, "2001:db8:1::1", "not in an address pool"},
		"of the machine":      {v4, "203.0.113.9", "that of the machine itself"},
		"of the API":          {v4, "203.0.113.10", "that of the API"},
		"loopback":            {v4, "127.0.0.1", "not one of a host"},
		"unspecified":         {v4, "0.0.0.0", "not one of a host"},
		"broadcast":           {v4, "255.255.255.255", "not one of a host"},
		"multicast":           {v4, "224.0.0.18", "not one of a host"},
		"link-local":          {v6, "fe80::1", "not one of a host"},
		"IPv4 mapped to IPv6": {v6, "::ffff:203.0.113.1", "not one of a host"},
	} {
		t.Run(name, func(t *testing.T) {
			c, faults := config.Compile(world(func(_ *state.State, lb *cloudv1.LoadBalancer) {
				lb.VIPs[0].Family, lb.VIPs[0].Address = test.family, test.address
			}), nil, options)
			if test.want == "" {
				if len(c.Addresses) != 1 || len(faults) != 0 {
					t.Errorf("got %v and faults %v", c.Addresses, faults)
				}
				return
			}
			if len(c.Addresses)+len(c.Listeners) > 0 || len(faults) != 1 || !strings.Contains(faults[0].Detail, test.want) {
				t.Errorf("got %v and faults %v, want %q", c.Addresses, faults, test.want)
			}
		})
	}
}

// A load balancer keeps its address if the cloud gives it to another one, too.
func TestAddressGivenTwice(t *testing.T) {
	s := world(func(_ *state.State, lb *cloudv1.LoadBalancer) { lb.CreatedAt = time.Unix(2, 0) })
	first := world(func(_ *state.State, lb *cloudv1.LoadBalancer) {
		lb.ID, lb.CreatedAt = "lb-2", time.Unix(1, 0)
	}).LoadBalancers["lb-1"]
	s.LoadBalancers["lb-2"] = first
	c, faults := config.Compile(s, nil, config.Options{})
	if len(c.Addresses) != 1 || len(c.Listeners) != 1 || c.Listeners[0].LoadBalancer != "lb-2" {
		t.Errorf("got %v and %+v", c.Addresses, c.Listeners)
	}
	if len(faults) != 1 || faults[0].LoadBalancerID != "lb-1" || !strings.Contains(faults[0].Detail, "belongs to load balancer lb-2") {
		t.Errorf("got faults %v", faults)
	}
}

// What an API server would never allow is one fault, and neither another port nor the end of everything.
func TestInvalidListeners(t *testing.T) {
	type edit = func(*state.State, *cloudv1.LoadBalancer)
	add := func(change func(*cloudv1.Listener)) edit {
		return func(_ *state.State, lb *cloudv1.LoadBalancer) {
			l := lb.Listeners[0]
			change(&l)
			lb.Listeners = append(lb.Listeners, l)
		}
	}
	for name, test := range map[string]struct {
		edit      edit
		listeners int
		want      string
	}{
		"port":     {add(func(l *cloudv1.Listener) { l.Key, l.Port = "tcp/x", 1<<16+80 }), 1, "port 65616 is not"},
		"same key": {add(func(l *cloudv1.Listener) { l.Port = 81 }), 1, "the same key"},
		"same port, by another engine": {
			add(func(l *cloudv1.Listener) { l.Key, l.Protocol = "tcp/x", cloudv1.ProtocolHTTP }), 1, "port 80/tcp",
		},
		"two addresses": {func(_ *state.State, lb *cloudv1.LoadBalancer) {
			lb.VIPs = append(lb.VIPs, cloudv1.VIP{Family: v4, Address: "203.0.113.2"})
		}, 1, "more than one address"},
		"port of members": {func(_ *state.State, lb *cloudv1.LoadBalancer) { lb.Pools[0].TargetPort = 1<<16 + 22 }, 0, "port 65558 is not"},
		"port of probes":  {func(_ *state.State, lb *cloudv1.LoadBalancer) { lb.Pools[0].HealthMonitor.Port = -1 }, 0, "port -1 of the health"},
	} {
		t.Run(name, func(t *testing.T) {
			c, faults := config.Compile(world(test.edit), nil, config.Options{})
			if len(c.Listeners) != test.listeners || len(faults) != 1 || !strings.Contains(faults[0].Detail, test.want) {
				t.Errorf("got %+v and faults %v, want %q", c.Listeners, faults, test.want)
			}
		})
	}
}

// A faulty listener stays as it was, with its members; others change, and none is kept that is not wanted any more.
func TestFaultyListenersStay(t *testing.T) {
	before, _ := config.Compile(world(), nil, config.Options{})
	faulty := func(s *state.State, lb *cloudv1.LoadBalancer) {
		delete(s.NodeGroups, "ng-1")
		lb.Listeners[0].MaxQPS = 7
	}
	after, faults := config.Compile(world(faulty), before, config.Options{})
	if len(faults) != 1 || !reflect.DeepEqual(after, before) {
		t.Errorf("got %+v and faults %v, want %+v", after, faults, before)
	}
	for name, edit := range map[string]func(*state.State, *cloudv1.LoadBalancer){
		"no listener": func(_ *state.State, lb *cloudv1.LoadBalancer) { lb.Listeners = nil },
		"address":     func(_ *state.State, lb *cloudv1.LoadBalancer) { lb.VIPs[0].Address = "203.0.113.2" },
		"port taken": func(_ *state.State, lb *cloudv1.LoadBalancer) {
			lb.Listeners[0].Port = 90
			lb.Listeners = append(lb.Listeners, cloudv1.Listener{Key: "tcp/x", Protocol: "tcp", Port: 80, PoolKey: "x"})
			lb.Pools = append(lb.Pools, cloudv1.Pool{Key: "x", Family: v4, TargetPort: 1})
		},
	} {
		after, _ := config.Compile(world(faulty, edit), before, config.Options{})
		for _, l := range after.Listeners {
			if l.Key == "tcp/80" {
				t.Errorf("%s: still there: %+v", name, l)
			}
		}
	}
}

// A member that the edge must not send anything to is that member's fault: the others serve, and get probes.
func TestMembersThatMustNotBe(t *testing.T) {
	options := config.Options{
		Reserved: map[netip.Addr]string{netip.MustParseAddr("198.51.100.1"): "a BGP peer"},
		Members:  []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("0.0.0.0/0")},
		API:      []netip.Addr{netip.MustParseAddr("198.51.100.7")},
	}
	onNode := options
	onNode.Members = append(slices.Clone(options.Members), netip.MustParsePrefix("198.51.100.7/32"))
	onlyOnNode, onNodeNarrow := onNode, onNode
	onlyOnNode.Members, onNodeNarrow.Members = onNode.Members[2:], []netip.Prefix{onNode.Members[0], onNode.Members[2]}
	narrow := options
	narrow.Members = options.Members[:1]
	edge := func(s *state.State, _ *cloudv1.LoadBalancer) {
		s.Edges["e-2"] = &cloudv1.Edge{
			Object: cloudv1.Object{Name: "edge-2"}, EdgeFields: cloudv1.EdgeFields{Addresses: []string{"198.51.100.3"}},
		}
		// The edge itself need not serve it.
		s.LoadBalancers["lb-2"] = &cloudv1.LoadBalancer{
			Object: cloudv1.Object{ID: "lb-2"}, ProvisioningState: cloudv1.ProvisioningPendingDelete,
			LoadBalancerFields: cloudv1.LoadBalancerFields{VIPs: []cloudv1.VIP{{Family: v4, Address: "203.0.113.77"}}},
		}
	}
	for name, test := range map[string]struct {
		options       config.Options
		address, want string
	}{
		"the API":                     {options, "198.51.100.7", "that of the API; if that runs on a node, name 198.51.100.7/32 in --member-network"},
		"the API on a node":           {onNode, "198.51.100.7", ""},
		"the API, of all":             {onlyOnNode, "198.51.100.7", ""},
		"another one, of all":         {onlyOnNode, "192.0.2.1", ""},
		"the API, besides a network":  {onNodeNarrow, "198.51.100.7", ""},
		"one outside that network":    {onNodeNarrow, "192.0.2.1", "not in a member network"},
		"loopback":                    {options, "127.0.0.1", "not one of a host"},
		"unspecified":                 {options, "0.0.0.0", "not one of a host"},
		"this network":                {options, "0.0.0.1", "not one of a host"},
		"broadcast":                   {options, "255.255.255.255", "not one of a host"},
		"reserved":                    {options, "240.0.0.1", "not one of a host"},
		"multicast":                   {options, "224.0.0.1", "not one of a host"},
		"metadata":                    {options, "169.254.169.254", "not one of a host"},
		"another family":              {options, "::ffff:127.0.0.1", "not an address of family ipv4"},
		"a name":                      {options, "localhost", "not an address"},
		"its own load balancer":       {options, "203.0.113.1", "load balancer lb-1"},
		"another load balancer":       {options, "203.0.113.77", "load balancer lb-2"},
		"a router":                    {options, "198.51.100.1", "a BGP peer"},
		"another edge":                {options, "198.51.100.3", "edge edge-2"},
		"outside the member networks": {narrow, "192.0.2.1", "not in a member network"},
	} {
		t.Run(name, func(t *testing.T) {
			c, faults := config.Compile(world(edge, func(s *state.State, lb *cloudv1.LoadBalancer) {
				group := s.NodeGroups["ng-1"]
				group.Members = append(group.Members, cloudv1.GroupMember{
					Key: "bad", Weight: 1, Addresses: []cloudv1.MemberAddress{{Family: v4, Address: test.address}},
				})
				second := lb.Listeners[0]
				second.Key, second.Port = "tcp/81", 81
				lb.Listeners = append(lb.Listeners, second)
			}), nil, test.options)
			members := 2
			if test.want == "" {
				members++
			}
			if len(c.Listeners) != 2 || len(c.Pools) != 1 || len(c.Pools[0].Members) != members {
				t.Fatalf("got %+v", c)
			}
			if test.want == "" && len(faults) == 0 {
				return
			}
			if len(faults) != 1 || !strings.Contains(faults[0].Detail, `member "bad"`) || !strings.Contains(faults[0].Detail, test.want) {
				t.Errorf("got faults %v, want one with %q", faults, test.want)
			}
		})
	}
}
