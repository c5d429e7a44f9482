package route

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// with returns a Node that is age minutes younger than the first.
func with(name, instance string, age int, podCIDRs ...string) node {
	n := node{name: name, instance: instance, created: time.Date(2026, 1, 1, 0, age, 0, 0, time.UTC)}
	for _, cidr := range podCIDRs {
		n.podCIDRs = append(n.podCIDRs, netip.MustParsePrefix(cidr))
	}
	return n
}

func to(destination, instance string) Route {
	return Route{Destination: netip.MustParsePrefix(destination), Hop: Hop{InstanceID: instance}}
}

func dead(r Route) Route {
	r.Dead = true
	return r
}

func table(routes ...Route) map[netip.Prefix]Route {
	all := map[netip.Prefix]Route{}
	for _, r := range routes {
		all[r.Destination] = r
	}
	return all
}

func prefixes(list ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, p := range list {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}

func TestDecide(t *testing.T) {
	const one, two, six = "10.244.1.0/24", "10.244.2.0/24", "fd00:10:244:1::/64"
	settled, wants := &result{}, func(cidrs ...string) *result { return &result{wanted: prefixes(cidrs...)} }
	has := func(reason, message string) *result { return &result{problems: []problem{{reason, message}}} }
	for name, tc := range map[string]struct {
		nodes  []node
		routes []Route
		want   decision
	}{
		"nothing to do": {
			nodes:  []node{with("a", "i-a", 0, one), with("b", "i-b", 0, two)},
			routes: []Route{to(one, "i-a"), to(two, "i-b")},
			want:   decision{results: map[string]*result{"a": settled, "b": settled}},
		},
		"a new Node gets a route per pod CIDR": {
			nodes: []node{with("a", "i-a", 0, one, six)},
			want: decision{
				upserts: []Route{to(one, "i-a"), to(six, "i-a")},
				results: map[string]*result{"a": wants(one, six)},
			},
		},
		"a family is missing": {
			nodes:  []node{with("a", "i-a", 0, one, six)},
			routes: []Route{to(one, "i-a")},
			want:   decision{upserts: []Route{to(six, "i-a")}, results: map[string]*result{"a": wants(six)}},
		},
		"a Node has taken over the pod CIDR of another instance": {
			nodes:  []node{with("a", "i-a", 0, one)},
			routes: []Route{to(one, "i-old")},
			want:   decision{upserts: []Route{to(one, "i-a")}, results: map[string]*result{"a": wants(one)}},
		},
		"a route to an address is replaced": {
			nodes:  []node{with("a", "i-a", 0, one)},
			routes: []Route{{Destination: netip.MustParsePrefix(one), Hop: Hop{Address: "10.0.0.1"}}},
			want:   decision{upserts: []Route{to(one, "i-a")}, results: map[string]*result{"a": wants(one)}},
		},
		"a Node is gone": {
			nodes:  []node{with("a", "i-a", 0, one)},
			routes: []Route{to(one, "i-a"), to(two, "i-b")},
			want:   decision{removals: []removal{{to(two, "i-b"), causeNoNode}}, results: map[string]*result{"a": settled}},
		},
		"an address is not a Node": {
			nodes:  []node{with("new", "", 0)},
			routes: []Route{{Destination: netip.MustParsePrefix(two), Hop: Hop{Address: "10.0.0.1"}}},
			want: decision{
				removals:      []removal{{Route{Destination: netip.MustParsePrefix(two), Hop: Hop{Address: "10.0.0.1"}}, causeNoNode}},
				uninitialized: map[string]bool{"new": true},
			},
		},
		"an uninitialized Node protects its pod CIDR, and other routes only by hostname": {
			nodes:  []node{with("new", "", 0, one)},
			routes: []Route{to(one, "i-old"), to(two, "i-b")},
			want: decision{
				suspects: []removal{{to(two, "i-b"), causeNoNode}}, uninitialized: map[string]bool{"new": true},
			},
		},
		"an uninitialized Node does not protect routes to deleted instances": {
			nodes:  []node{with("new", "", 0, one)},
			routes: []Route{dead(to(one, "i-old")), dead(to(two, "i-b"))},
			want: decision{
				removals:      []removal{{dead(to(one, "i-old")), causeDead}, {dead(to(two, "i-b")), causeDead}},
				uninitialized: map[string]bool{"new": true},
			},
		},
		"the instance of a Node is deleted": {
			nodes:  []node{with("a", "i-a", 0, one)},
			routes: []Route{dead(to(one, "i-a"))},
			want: decision{results: map[string]*result{
				"a": has(reasonDead, "the cloud reports that instance i-a is deleted"),
			}},
		},
		"a Node has another pod CIDR now": {
			nodes:  []node{with("a", "i-a", 0, two)},
			routes: []Route{to(one, "i-a"), to(two, "i-a")},
			want:   decision{removals: []removal{{to(one, "i-a"), causeStale}}, results: map[string]*result{"a": settled}},
		},
		"a Node without pod CIDRs keeps its routes": {
			nodes:  []node{with("a", "i-a", 0)},
			routes: []Route{to(one, "i-a")},
		},
		"a stale route of a Node stays while it may be that of an uninitialized one": {
			nodes:  []node{with("a", "i-a", 0, two), with("new", "", 0, one)},
			routes: []Route{to(one, "i-a"), to(two, "i-a")},
			want:   decision{results: map[string]*result{"a": settled}, uninitialized: map[string]bool{"new": true}},
		},
		"routes outside the cluster's CIDRs stay": {
			routes: []Route{to("10.245.1.0/24", "i-b"), to("10.0.0.0/8", "i-b"), to("fd00::/16", "i-b")},
		},
		"of two Nodes with a pod CIDR, the older one gets the route": {
			nodes: []node{with("young", "i-y", 1, one), with("old", "i-o", 0, one)},
			want: decision{
				upserts: []Route{to(one, "i-o")},
				results: map[string]*result{
					"old": wants(one), "young": has(reasonConflict, "pod CIDR 10.244.1.0/24 is also that of node old"),
				},
			},
		},
		"of two Nodes with a pod CIDR, the one with the route keeps it": {
			nodes:  []node{with("young", "i-y", 1, one), with("old", "i-o", 0, one)},
			routes: []Route{to(one, "i-y")},
			want: decision{results: map[string]*result{
				"old": has(reasonConflict, "pod CIDR 10.244.1.0/24 is also that of node young"), "young": settled,
			}},
		},
		"an invalid pod CIDR does not stop the valid one": {
			nodes: []node{{name: "a", instance: "i-a", podCIDRs: prefixes(one), invalid: `pod CIDR "x" is not a CIDR`}},
			want: decision{
				upserts: []Route{to(one, "i-a")},
				results: map[string]*result{"a": {
					wanted: prefixes(one), problems: []problem{{reasonInvalid, `pod CIDR "x" is not a CIDR`}},
				}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := decide(tc.nodes, table(tc.routes...), prefixes("10.244.0.0/16", "fd00:10:244::/48"))
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(decision{}, removal{}, result{}),
				cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("unexpected decision (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAttempts(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	first, second := Change{Route: to("10.244.1.0/24", "i-a")}, Change{Route: to("10.244.2.0/24", "i-b")}
	a := attempts{}
	a.failed(first, context.Canceled, now)
	if got := a.keep([]Change{first, second}, now); len(got) != 1 || got[0] != second {
		t.Errorf("due %v, want the change that has not failed", got)
	}
	if got := a.next(now); got != attemptBase {
		t.Errorf("next in %v, want %v", got, attemptBase)
	}
	if got := a.keep([]Change{first}, now.Add(attemptBase)); len(got) != 1 {
		t.Errorf("due %v, want the failed change", got)
	}
	for range 20 {
		a.failed(first, context.Canceled, now)
	}
	if got := a.next(now); got != attemptMax {
		t.Errorf("next in %v, want %v", got, attemptMax)
	}
	moved := Change{Route: to("10.244.1.0/24", "i-c")}
	if got := a.keep([]Change{moved}, now); len(got) != 1 {
		t.Errorf("due %v, want the other route at once", got)
	}
	if a.keep(nil, now); len(a) != 0 {
		t.Errorf("failures %v of changes that nothing asks for", a)
	}
}
