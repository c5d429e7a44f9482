package teardown

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/provider/cloudapi"
	"quaymaster.dev/provider/ownership"
)

func balancer(id string, change ...func(*cloudapi.LoadBalancer)) cloudapi.LoadBalancer {
	lb := cloudapi.LoadBalancer{Object: cloudapi.Object{ID: id, Name: "dev-" + id, Tags: map[string]string{ownership.ServiceUID: "uid-" + id}}}
	lb.Pools = []cloudapi.Pool{{NodeGroupID: "ng-" + id}}
	for _, c := range change {
		c(&lb)
	}
	return lb
}

func protected(lb *cloudapi.LoadBalancer) { lb.DeletionProtection = true }

func group(id string) cloudapi.NodeGroup {
	return cloudapi.NodeGroup{Object: cloudapi.Object{ID: "ng-" + id, Name: "dev-" + id}}
}

func route(destination string) cloudapi.Route {
	return cloudapi.Route{
		Object: cloudapi.Object{ID: "rte-" + destination}, RouteTableID: "rt-main", Destination: destination,
		NextHop: cloudapi.NextHop{InstanceID: "i-1"},
	}
}

func TestPlan(t *testing.T) {
	for name, tc := range map[string]struct {
		found  Inventory
		wishes Wishes
		want   []string
	}{
		"nothing": {},
		"in the order in which it can go": {
			found: Inventory{
				LoadBalancers: []cloudapi.LoadBalancer{balancer("b"), balancer("a")},
				NodeGroups:    []cloudapi.NodeGroup{group("a")},
				Routes:        []cloudapi.Route{route("10.244.2.0/24"), route("10.244.1.0/24")},
			},
			want: []string{"a: ", "b: ", "ng-a: ", "rte-10.244.1.0/24: ", "rte-10.244.2.0/24: "},
		},
		"protected, with what it needs": {
			found: Inventory{
				LoadBalancers: []cloudapi.LoadBalancer{balancer("a", protected), balancer("b")},
				NodeGroups:    []cloudapi.NodeGroup{group("a"), group("b")},
			},
			want: []string{
				"a: it has deletion protection; say --include-protected", "b: ",
				"ng-a: load balancer a, which stays, needs it", "ng-b: ",
			},
		},
		"protected, but included": {
			found:  Inventory{LoadBalancers: []cloudapi.LoadBalancer{balancer("a", protected)}, NodeGroups: []cloudapi.NodeGroup{group("a")}},
			wishes: Wishes{IncludeProtected: true},
			want:   []string{"a: ", "ng-a: "},
		},
		"retained, even if protected ones are included": {
			found:  Inventory{LoadBalancers: []cloudapi.LoadBalancer{balancer("a", protected)}},
			wishes: Wishes{IncludeProtected: true, Retained: map[string]string{"uid-a": "shop/web"}},
			want:   []string{"a: Service shop/web wants it retained; delete that Service while the controllers run"},
		},
		"without a Service": {
			found:  Inventory{LoadBalancers: []cloudapi.LoadBalancer{balancer("a", func(lb *cloudapi.LoadBalancer) { lb.Tags = nil })}},
			wishes: Wishes{Retained: map[string]string{"uid-b": "shop/web"}},
			want:   []string{"a: "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, item := range Plan(tc.found, tc.wishes) {
				got = append(got, item.ID+": "+item.Keep)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected plan (-want +got):\n%s", diff)
			}
		})
	}
}
