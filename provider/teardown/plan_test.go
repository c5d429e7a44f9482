package teardown

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/provider/ownership"
)

func balancer(id string, change ...func(*cloudv1.LoadBalancer)) cloudv1.LoadBalancer {
	lb := cloudv1.LoadBalancer{
		Object: cloudv1.Object{ID: id, Name: "dev-" + id, Tags: map[string]string{ownership.ServiceUID: "uid-" + id}},
	}
	lb.Pools = []cloudv1.Pool{{NodeGroupID: "ng-" + id}}
	for _, c := range change {
		c(&lb)
	}
	return lb
}

func protected(lb *cloudv1.LoadBalancer) { lb.DeletionProtection = true }

func group(id string) cloudv1.NodeGroup {
	return cloudv1.NodeGroup{Object: cloudv1.Object{ID: "ng-" + id, Name: "dev-" + id}}
}

func route(destination string) cloudv1.Route {
	return cloudv1.Route{
		Object: cloudv1.Object{ID: "rte-" + destination}, RouteTableID: "rt-main", Destination: destination,
		NextHop: cloudv1.NextHop{InstanceID: "i-1"},
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
				LoadBalancers: []cloudv1.LoadBalancer{balancer("b"), balancer("a")},
				NodeGroups:    []cloudv1.NodeGroup{group("a")},
				Routes:        []cloudv1.Route{route("10.244.2.0/24"), route("10.244.1.0/24")},
			},
			want: []string{"a: ", "b: ", "ng-a: ", "rte-10.244.1.0/24: ", "rte-10.244.2.0/24: "},
		},
		"protected, with what it needs": {
			found: Inventory{
				LoadBalancers: []cloudv1.LoadBalancer{balancer("a", protected), balancer("b")},
				NodeGroups:    []cloudv1.NodeGroup{group("a"), group("b")},
			},
			want: []string{
				"a: it has deletion protection; to delete it, use --include-protected", "b: ",
				"ng-a: load balancer a, which is kept, needs it", "ng-b: ",
			},
		},
		"protected, but included": {
			found:  Inventory{LoadBalancers: []cloudv1.LoadBalancer{balancer("a", protected)}, NodeGroups: []cloudv1.NodeGroup{group("a")}},
			wishes: Wishes{IncludeProtected: true},
			want:   []string{"a: ", "ng-a: "},
		},
		"retained, even if protected ones are included": {
			found:  Inventory{LoadBalancers: []cloudv1.LoadBalancer{balancer("a", protected)}},
			wishes: Wishes{IncludeProtected: true, Retained: map[string]string{"uid-a": "shop/web"}},
			want:   []string{"a: Service shop/web has retain-on-delete; delete that Service while the controllers run"},
		},
		"adopted, even if protected ones are included": {
			found: Inventory{
				LoadBalancers: []cloudv1.LoadBalancer{balancer("a", protected, func(lb *cloudv1.LoadBalancer) { lb.Tags[ownership.Adopt] = "" })},
				NodeGroups:    []cloudv1.NodeGroup{group("a")},
			},
			wishes: Wishes{IncludeProtected: true},
			want: []string{
				"a: a Service adopted it, so it is its owner's; delete that Service while the controllers run, or remove the tags " +
					"quaymaster.dev/cluster-uid and quaymaster.dev/service-uid in the cloud",
				"ng-a: load balancer a, which is kept, needs it",
			},
		},
		"without a Service": {
			found:  Inventory{LoadBalancers: []cloudv1.LoadBalancer{balancer("a", func(lb *cloudv1.LoadBalancer) { lb.Tags = nil })}},
			wishes: Wishes{Retained: map[string]string{"uid-b": "shop/web"}},
			want:   []string{"a: "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, item := range Plan(tc.found, tc.wishes.Keep) {
				got = append(got, item.ID+": "+item.Keep)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected plan (-want +got):\n%s", diff)
			}
		})
	}
}
