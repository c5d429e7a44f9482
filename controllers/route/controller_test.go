package route_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/env"
)

// A start costs one call per page of routes and no write, and a check for changes by others a single call.
func TestUnchangedStart(t *testing.T) {
	nodes, routes := fleet(600)
	for _, n := range nodes {
		confirmed(n)
	}
	f := setUp(t, nodes...)
	f.putRoutes(clusterUID, routes)
	f.start()
	f.pass(false)
	if got := f.cloud.Calls(); !slices.Equal(got, []string{listPath, listPath}) {
		t.Errorf("calls %v, want two pages", got)
	}
	f.pass(false)
	if got := f.cloud.Calls(); len(got) > 0 {
		t.Errorf("calls %v without a change, want none", got)
	}
	var known string
	f.cloud.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		known = r.Header.Get("If-None-Match")
		return false
	})
	f.pass(true)
	if got := f.cloud.Calls(); len(got) != 1 || known == "" {
		t.Errorf("calls %v that know revision %q, want one for all pages", got, known)
	}
	if f.patches() > 0 {
		t.Errorf("%d nodes were written, want none", f.patches())
	}
}

// A cloud that is restored to the state before a write has the revision of that state again. So after a write, what the
// cloud has is read whole, whatever its revision.
func TestLostWrite(t *testing.T) {
	f := setUp(t, node("a", "mycloud://i-node-1", "10.244.1.0/24"))
	f.start()
	f.pass(false)
	f.expectRoutes(map[string]string{"10.244.1.0/24": "i-node-1"})
	var known []string
	f.cloud.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		known = append(known, r.Header.Get("If-None-Match"))
		return false
	})
	f.pass(true)
	f.pass(true)
	if len(known) != 2 || known[0] != "" || known[1] == "" {
		t.Errorf("lists with the revisions %q, want one without and one with it", known)
	}
}

func TestManyNodesJoin(t *testing.T) {
	nodes, routes := fleet(500)
	f := setUp(t, nodes...)
	f.start()
	f.pass(false)
	if got := f.cloud.Calls(); !slices.Equal(got, []string{listPath, writePath}) {
		t.Errorf("calls %v, want a list and a write", got)
	}
	f.expectRoutes(routes)
	if f.patches() != len(nodes) {
		t.Errorf("%d conditions were written, want %d", f.patches(), len(nodes))
	}
	f.expectCondition("n499", "False RouteCreated")
}

func TestDualStack(t *testing.T) {
	f := setUp(t, node("a", "mycloud://i-node-1", "10.244.1.0/24", "fd00:10:244:1::/64"))
	f.start()
	f.pass(false)
	f.expectRoutes(map[string]string{"10.244.1.0/24": "i-node-1", "fd00:10:244:1::/64": "i-node-1"})
	f.expectCondition("a", "False RouteCreated")
}

// A Node whose instance the cloud does not know neither stops nor delays the others, and is repeated on its own.
func TestUnknownInstance(t *testing.T) {
	f := setUp(t, node("bad", "mycloud://i-later", "10.244.1.0/24"), node("good", "mycloud://i-node-2", "10.244.2.0/24"))
	f.start()
	f.pass(false)
	f.expectRoutes(map[string]string{"10.244.2.0/24": "i-node-2"})
	f.expectCondition("good", "False RouteCreated")
	f.expectCondition("bad", "True NoRouteCreated")
	f.event("bad", "must be an existing instance")
	f.cloud.Calls()
	f.put(node("third", "mycloud://i-node-3", "10.244.3.0/24"))
	f.settle("the third route", func() error { return f.has("10.244.3.0/24") })
	f.expectCondition("third", "False RouteCreated")
	before := f.patches()
	for range 5 {
		f.clock.Step(time.Minute)
		f.pass(false)
	}
	if got := cloud.Writes(f.cloud.Calls()); len(got) < 5 || len(got) > 7 {
		t.Errorf("writes %v, want one of the third node and some attempts", got)
	}
	if f.patches() != before {
		t.Errorf("%d conditions were written, want %d: nothing has changed", f.patches(), before)
	}
	// The Node moves to an instance that exists: the route is written at once.
	f.update("bad", func(n *corev1.Node) { n.Spec.ProviderID = "mycloud://i-node-4" })
	f.settle("the route to the new instance", func() error { return f.has("10.244.1.0/24") })
	f.settle("the condition", func() error { return f.says("bad", "False RouteCreated") })
}

// The controller of k8s.io/cloud-provider does not repeat a failed creation until something else happens to a Node.
func TestOutage(t *testing.T) {
	nodes, routes := fleet(3)
	f := setUp(t, nodes...)
	f.start()
	f.failWrites(1, unavailable)
	next, err := f.Pass(t.Context(), false)
	if err != nil || next != time.Second {
		t.Fatalf("next pass in %v, %v; want 1s", next, err)
	}
	f.WriteConditions(t.Context())
	f.expectCondition("n0", "True NoRouteCreated")
	f.clock.Step(next)
	f.pass(false)
	f.expectRoutes(routes)
	f.expectCondition("n0", "False RouteCreated")
}

// If a response is lost, the routes are read before anything is written again.
func TestLostResponse(t *testing.T) {
	nodes, routes := fleet(2)
	f := setUp(t, nodes...)
	f.start()
	f.failWrites(1, func(w http.ResponseWriter, r *http.Request) {
		f.cloud.Serve(httptest.NewRecorder(), r)
		unavailable(w, r)
	})
	f.pass(false)
	f.expectRoutes(routes)
	f.cloud.Calls()
	f.clock.Step(time.Second)
	f.pass(false)
	if got := f.cloud.Calls(); !slices.Equal(got, []string{listPath}) {
		t.Errorf("calls %v, want a list", got)
	}
	f.expectCondition("n1", "False RouteCreated")
}

// Routes of others are never changed, whether they have the destination of a Node, overlap with it, or lead to an
// instance without a Node.
func TestForeignRoutes(t *testing.T) {
	foreign := map[string]string{"10.244.1.0/24": "i-node-4", "10.244.0.0/16": "i-node-4", "10.244.9.0/24": "i-node-3"}
	f := setUp(t, node("a", "mycloud://i-node-1", "10.244.1.0/24"), node("b", "mycloud://i-node-2", "10.244.2.0/24"))
	f.putRoutes(other, foreign)
	f.start()
	f.pass(false)
	if diff := cmp.Diff(foreign, f.routes(other)); diff != "" {
		t.Errorf("unexpected foreign routes (-want +got):\n%s", diff)
	}
	f.expectRoutes(map[string]string{"10.244.2.0/24": "i-node-2"})
	f.expectCondition("a", "True DestinationTaken")
	f.expectCondition("b", "False RouteCreated")
	f.event("a", other)
}

// A Node without provider ID protects only what may be its own; the black holes of others are removed.
func TestBlackHolesNextToUninitializedNode(t *testing.T) {
	nodes, routes := fleet(12)
	f := setUp(t, append(nodes, node("renamed", "", "10.244.200.0/24"))...)
	for _, n := range nodes {
		if n.Spec.ProviderID == "mycloud://i-node-4" {
			f.deleteNode(n.Name)
			delete(routes, n.Spec.PodCIDRs[0])
		}
	}
	stays := maps.Clone(routes)
	routes["10.244.201.0/24"] = "i-node-4" // the black hole
	f.putRoutes(clusterUID, routes)
	f.start()
	f.pass(false)
	f.expectRoutes(stays)

	f.putRoutes(clusterUID, map[string]string{"10.244.201.0/24": "i-node-4", "10.244.200.0/24": "i-node-4"})
	f.put(node("node-4", ""))
	stays["10.244.201.0/24"], stays["10.244.200.0/24"] = "i-node-4", "i-node-4"
	f.start()
	f.pass(false)
	f.expectRoutes(stays)

	// Without an answer about the hostnames, nothing is removed.
	f.deleteNode("node-4")
	f.start()
	f.failWrites(1, unavailable)
	if _, err := f.Pass(t.Context(), false); err == nil {
		t.Error("the pass does not report that hostnames are unknown")
	}
	f.expectRoutes(stays)
	f.pass(false)
	delete(stays, "10.244.201.0/24")
	f.expectRoutes(stays)
}

// Nodes of other clouds neither get nor protect routes, and their conditions are left alone.
func TestForeignNode(t *testing.T) {
	f := setUp(t, node("a", "mycloud://i-node-1", "10.244.1.0/24"), node("hybrid", "metal:///rack-1", "10.244.2.0/24"))
	f.putRoutes(clusterUID, map[string]string{"10.244.2.0/24": "i-node-4"})
	f.start()
	f.pass(false)
	f.expectRoutes(map[string]string{"10.244.1.0/24": "i-node-1"})
	f.expectCondition("hybrid", "")
	if f.patches() != 1 {
		t.Errorf("%d nodes were written, want 1", f.patches())
	}
}

func TestDrift(t *testing.T) {
	nodes, routes := fleet(8)
	f := setUp(t, nodes...)
	f.start()
	f.pass(false)
	changed := maps.Clone(routes)
	changed["10.244.0.0/28"] = "i-node-3"
	changed["10.244.77.0/24"] = "i-node-3" // no Node has it
	f.putRoutes(clusterUID, changed)
	f.pass(true)
	f.expectRoutes(routes)
}

// The route of a deleted instance is removed even if its Node was deleted while no controller ran.
func TestDeletedInstances(t *testing.T) {
	nodes, routes := fleet(8)
	f := setUp(t, nodes...)
	f.putRoutes(clusterUID, routes)
	if _, err := f.cloud.Client.DeleteInstance(t.Context(), "i-node-1", cloudapi.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.start()
	f.pass(false)
	f.expectRoutes(routes)
	f.expectCondition("n0", "True InstanceDeleted")
	for _, n := range nodes {
		if n.Spec.ProviderID == "mycloud://i-node-1" {
			f.deleteNode(n.Name)
			delete(routes, n.Spec.PodCIDRs[0])
		}
	}
	f.start()
	f.pass(false)
	f.expectRoutes(routes)
}

// A change of a Node is a reason to repeat at once what has failed for it.
func TestChangedNode(t *testing.T) {
	f := setUp(t, node("a", "mycloud://i-node-1", "10.244.1.0/24"))
	f.putRoutes(other, map[string]string{"10.244.1.0/24": "i-node-4"})
	f.start()
	f.pass(false)
	f.expectCondition("a", "True DestinationTaken")
	_, err := f.cloud.Client.BatchRoutes(t.Context(), tableID, cloudv1.RoutesBatch{
		Remove: []cloudv1.RouteRemoval{{Destination: "10.244.1.0/24"}},
	}, cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.pass(false)
	f.expectRoutes(map[string]string{})
	f.update("a", func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.11"}}
	})
	f.settle("the route", func() error { return f.has("10.244.1.0/24") })
}

// Failed attempts are counted in one Event, although each request has another id.
func TestRepeatedFailure(t *testing.T) {
	nodes, _ := fleet(1)
	f := setUp(t, nodes...)
	f.start()
	f.failWrites(2, unavailable)
	for range 2 {
		next, err := f.Pass(t.Context(), false)
		if err != nil || next == 0 {
			t.Fatalf("next pass in %v, %v; want a retry", next, err)
		}
		f.clock.Step(next)
	}
	env.Eventually(t, limit, "an event that happened twice", func(ctx context.Context) error {
		events, err := f.client.CoreV1().Events("").List(ctx, metav1.ListOptions{})
		if err == nil && (len(events.Items) != 1 || events.Items[0].Count != 2) {
			err = fmt.Errorf("events %v", events.Items)
		}
		return err
	})
}

// A pod CIDR outside those of the cluster gets no route: 0.0.0.0/0 would be the default route of the network.
func TestPodCIDROutsideTheCluster(t *testing.T) {
	f := setUp(t, node("a", "mycloud://i-node-1", "0.0.0.0/0", "10.244.1.0/24"), node("b", "mycloud://i-node-2", "10.244.0.0/15"))
	f.start()
	f.pass(false)
	f.expectRoutes(map[string]string{"10.244.1.0/24": "i-node-1"})
	f.expectCondition("a", "True InvalidPodCIDR")
	f.expectCondition("b", "True InvalidPodCIDR")
	f.event("a", "pod CIDR 0.0.0.0/0 is not within --cluster-cidr")
	f.event("b", "pod CIDR 10.244.0.0/15 is not within --cluster-cidr")
}
