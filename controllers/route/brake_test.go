package route_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
)

// An incomplete list of Nodes must not remove routes.
func TestBrake(t *testing.T) {
	nodes, routes := fleet(10)
	f := setUp(t, nodes[:7]...)
	f.putRoutes(clusterUID, routes)
	f.start()
	f.pass(false)
	f.expectRoutes(routes)
	if !f.engaged() {
		t.Error("the brake is not engaged")
	}
	// A new Node still gets its route.
	f.put(node("new", "mycloud://i-node-1", "10.244.99.0/24"))
	f.settle("the route of the new node", func() error { return f.has("10.244.99.0/24") })
	f.deleteNode("n0") // seen, but nothing is removed while the brake is engaged
	f.settle("the deletion", func() error { return f.gone("n0") })
	routes["10.244.99.0/24"] = "i-node-1"
	f.expectRoutes(routes)
	// An operator resumes removals.
	f.resume()
	f.pass(false)
	for _, destination := range []string{"10.244.0.0/28", "10.244.0.112/28", "10.244.0.128/28", "10.244.0.144/28"} {
		delete(routes, destination)
	}
	f.expectRoutes(routes)
}

// When the missing Nodes are back, the brake is released.
func TestBrakeReleases(t *testing.T) {
	nodes, routes := fleet(8)
	f := setUp(t)
	f.putRoutes(clusterUID, routes)
	f.start()
	f.pass(false)
	if !f.engaged() {
		t.Error("the brake is not engaged")
	}
	for _, n := range nodes {
		f.put(n)
	}
	f.settle("the release", func() error {
		if f.engaged() {
			return errors.New("it is engaged")
		}
		return nil
	})
	f.expectRoutes(routes)
}

// Any number of routes is removed if the deletion of their Nodes was seen.
func TestSeenDeletions(t *testing.T) {
	nodes, routes := fleet(8)
	for i, n := range nodes {
		n.Spec.ProviderID = fmt.Sprintf("mycloud://i-node-%d", i/2+1)
		routes[n.Spec.PodCIDRs[0]] = fmt.Sprintf("i-node-%d", i/2+1)
	}
	f := setUp(t, nodes...)
	f.start()
	f.pass(false)
	f.expectRoutes(routes)
	stays := maps.Clone(routes)
	for _, n := range nodes[:6] {
		f.deleteNode(n.Name)
		delete(stays, n.Spec.PodCIDRs[0])
	}
	f.settle("the removal", func() error {
		if got := f.routes(clusterUID); len(got) != len(stays) {
			return fmt.Errorf("%d routes", len(got))
		}
		return nil
	})
	f.expectRoutes(stays)
	if f.engaged() {
		t.Error("the brake is engaged")
	}
}
