package provider_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	cloudprovider "k8s.io/cloud-provider"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/provider"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/cloud"
)

const (
	table      = "rt-main"
	clusterUID = "c1a5e000-0000-4000-8000-000000000001"
)

// routesOf returns the provider's routes in a cluster with the Nodes. synced is true if the provider's lister has them.
func routesOf(t *testing.T, c *cloud.Cloud, synced bool, nodes ...*corev1.Node) cloudprovider.Routes {
	t.Helper()
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: clusterUID}})
	factory := informers.NewSharedInformerFactory(client, 0)
	p := provider.New(
		provider.Options{Cloud: c.Client, Cluster: ownership.NewCluster(client.CoreV1()), RouteTableID: table},
	)
	p.SetInformers(factory)
	for _, n := range nodes {
		if err := client.Tracker().Add(n); err != nil {
			t.Fatal(err)
		}
	}
	if synced {
		factory.StartWithContext(t.Context())
		factory.WaitForCacheSync(t.Context().Done())
	}
	routes, ok := p.Routes()
	if !ok {
		t.Fatal("routes are not supported")
	}
	return routes
}

func putRoute(t *testing.T, c *cloud.Cloud, destination, instance, cluster string) {
	t.Helper()
	result, err := c.Client.BatchRoutes(t.Context(), table, cloudv1.RoutesBatch{Upsert: []cloudv1.RouteSpec{{
		Destination: destination, NextHop: cloudv1.NextHop{InstanceID: instance},
		Tags: map[string]string{ownership.ClusterUID: cluster},
	}}}, cloudapi.WriteOptions{})
	if err != nil || result.Results[0].Error != nil {
		t.Fatal(err, result)
	}
}

func TestListRoutes(t *testing.T) {
	c := cloud.Start(t, 0)
	putRoute(t, c, "10.244.1.0/24", "i-node-1", clusterUID)
	putRoute(t, c, "10.244.2.0/24", "i-node-2", clusterUID)
	putRoute(t, c, "10.99.0.0/24", "i-node-1", "another-cluster")
	first := &cloudprovider.Route{TargetNode: "node-1", DestinationCIDR: "10.244.1.0/24"}
	for name, tc := range map[string]struct {
		nodes []*corev1.Node
		want  []*cloudprovider.Route
	}{
		"every Node known": {
			nodes: []*corev1.Node{node("node-1", "mycloud://i-node-1"), node("node-2", "mycloud://i-node-2")},
			want:  []*cloudprovider.Route{first, {TargetNode: "node-2", DestinationCIDR: "10.244.2.0/24"}},
		},
		"a Node is gone: its route is a black hole": {
			nodes: []*corev1.Node{node("node-1", "mycloud://i-node-1")},
			want:  []*cloudprovider.Route{first, {DestinationCIDR: "10.244.2.0/24", Blackhole: true}},
		},
		"a Node of another cloud has no route here": {
			nodes: []*corev1.Node{node("node-1", "mycloud://i-node-1"), node("other", "aws:///eu/i-1")},
			want:  []*cloudprovider.Route{first, {DestinationCIDR: "10.244.2.0/24", Blackhole: true}},
		},
		"a Node is not initialised: the route may be its": {
			nodes: []*corev1.Node{node("node-1", "mycloud://i-node-1"), node("node-2", "")},
			want:  []*cloudprovider.Route{first},
		},
	} {
		t.Run(name, func(t *testing.T) {
			routes := routesOf(t, c, true, tc.nodes...)
			got, err := routes.ListRoutes(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(got, func(a, b *cloudprovider.Route) int {
				return strings.Compare(a.DestinationCIDR, b.DestinationCIDR)
			})
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(cloudprovider.Route{}, "Name")); diff != "" {
				t.Errorf("unexpected routes (-want +got):\n%s", diff)
			}
		})
	}
}

// Without the Nodes, every route would be a black hole, and the route controller would delete them all.
func TestListRoutesNeedsTheNodes(t *testing.T) {
	c := cloud.Start(t, 0)
	putRoute(t, c, "10.244.1.0/24", "i-node-1", clusterUID)
	if got, err := routesOf(t, c, false, node("node-1", "mycloud://i-node-1")).ListRoutes(t.Context(), ""); err == nil {
		t.Errorf("ListRoutes before the nodes are known = %v, want an error", got)
	}
}

func TestCreateAndDeleteRoute(t *testing.T) {
	c := cloud.Start(t, 0)
	putRoute(t, c, "10.99.0.0/24", "i-node-1", "another-cluster")
	routes := routesOf(t, c, true, node("node-1", "mycloud://i-node-1"), node("node-2", "mycloud://i-node-2"),
		node("node-3", ""), node("unknown", ""))
	ctx := t.Context()
	for name, tc := range map[string]struct {
		route cloudprovider.Route
		err   string
	}{
		"new":                  {route: cloudprovider.Route{TargetNode: "node-1", DestinationCIDR: "10.244.1.0/24"}},
		"of another cluster":   {route: cloudprovider.Route{TargetNode: "node-1", DestinationCIDR: "10.99.0.0/24"}, err: "destination-taken"},
		"Node not initialised": {route: cloudprovider.Route{TargetNode: "node-3", DestinationCIDR: "10.244.3.0/24"}},
		"Node without instance": {
			route: cloudprovider.Route{TargetNode: "unknown", DestinationCIDR: "10.244.5.0/24"}, err: `no instance has the hostname "unknown"`,
		},
		"no such Node": {route: cloudprovider.Route{TargetNode: "gone", DestinationCIDR: "10.244.4.0/24"}, err: "not found"},
	} {
		if err := routes.CreateRoute(ctx, "", "", &tc.route); !matches(err, tc.err) {
			t.Errorf("%s: CreateRoute: %v, want %q", name, err, tc.err)
		}
	}
	if err := routes.CreateRoute(ctx, "", "", &cloudprovider.Route{TargetNode: "node-2", DestinationCIDR: "10.244.1.0/24"}); err != nil {
		t.Errorf("move a route of our own: %v", err)
	}
	list, err := c.Client.ListRoutes(ctx, table, cloudapi.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	leads := map[string]string{}
	for _, r := range list.Items {
		leads[r.Destination] = r.NextHop.InstanceID
	}
	want := map[string]string{"10.244.1.0/24": "i-node-2", "10.244.3.0/24": "i-node-3", "10.99.0.0/24": "i-node-1"}
	if diff := cmp.Diff(want, leads); diff != "" {
		t.Errorf("unexpected routes in the cloud (-want +got):\n%s", diff)
	}
	got, err := routes.ListRoutes(ctx, "")
	if err != nil || len(got) != 1 || got[0].TargetNode != "node-2" {
		t.Fatalf("routes after creation: %v, %v; want one to node-2", got, err)
	}
	err = routes.DeleteRoute(ctx, "", &cloudprovider.Route{Name: "i-node-1", DestinationCIDR: "10.99.0.0/24"})
	if !matches(err, "tags-mismatch") {
		t.Errorf("delete a route of another cluster: %v, want tags-mismatch", err)
	}
	for range 2 {
		if err := routes.DeleteRoute(ctx, "", got[0]); err != nil {
			t.Errorf("delete: %v", err)
		}
	}
}

// A new Node takes over the destination of a deleted one: the controller creates its route and deletes the black hole
// that it has listed, in any order.
func TestDeleteRouteOfAnotherHop(t *testing.T) {
	c := cloud.Start(t, 0)
	putRoute(t, c, "10.244.1.0/24", "i-node-1", clusterUID)
	routes := routesOf(t, c, true, node("node-2", "mycloud://i-node-2"))
	ctx := t.Context()
	listed, err := routes.ListRoutes(ctx, "")
	if err != nil || len(listed) != 1 || !listed[0].Blackhole {
		t.Fatalf("routes %v, %v; want a black hole", listed, err)
	}
	if err := routes.CreateRoute(ctx, "", "", &cloudprovider.Route{TargetNode: "node-2", DestinationCIDR: "10.244.1.0/24"}); err != nil {
		t.Fatal(err)
	}
	if err := routes.DeleteRoute(ctx, "", listed[0]); err != nil {
		t.Errorf("delete the black hole: %v", err)
	}
	if now, err := routes.ListRoutes(ctx, ""); err != nil || len(now) != 1 || now[0].TargetNode != "node-2" {
		t.Errorf("routes %v, %v; want the new one to node-2", now, err)
	}
}

// A route to an address is deleted like one to an instance.
func TestDeleteRouteToAddress(t *testing.T) {
	c := cloud.Start(t, 0)
	result, err := c.Client.BatchRoutes(t.Context(), table, cloudv1.RoutesBatch{Upsert: []cloudv1.RouteSpec{{
		Destination: "10.244.1.0/24", NextHop: cloudv1.NextHop{Address: "10.0.0.1"},
		Tags: map[string]string{ownership.ClusterUID: clusterUID},
	}}}, cloudapi.WriteOptions{})
	if err != nil || result.Results[0].Error != nil {
		t.Fatal(err, result)
	}
	routes := routesOf(t, c, true)
	listed, err := routes.ListRoutes(t.Context(), "")
	if err != nil || len(listed) != 1 {
		t.Fatalf("routes %v, %v; want one", listed, err)
	}
	if err := routes.DeleteRoute(t.Context(), "", listed[0]); err != nil {
		t.Fatal(err)
	}
	if left, err := routes.ListRoutes(t.Context(), ""); err != nil || len(left) != 0 {
		t.Errorf("routes %v, %v; want none", left, err)
	}
}
