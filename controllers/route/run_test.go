package route_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"quaymaster.dev/test/harness/env"
)

// limit bounds how long a change takes to reach the cloud: one second to settle, and a margin for slow machines.
const limit = 5 * time.Second

// run starts a Controller and stops it at the end of the test.
func (f *fixture) run() {
	f.t.Helper()
	f.create(clock.RealClock{})
	ctx, cancel := context.WithCancel(f.t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	f.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// Every change of a Node that matters is reconciled within seconds, without a check for changes by others.
func TestRun(t *testing.T) {
	nodes, routes := fleet(6)
	f := setUp(t, nodes...)
	f.run()
	expect := func(what string) {
		t.Helper()
		env.Eventually(t, limit, what, func(context.Context) error {
			if got := f.routes(clusterUID); !maps.Equal(got, routes) {
				return fmt.Errorf("routes %v, want %v", got, routes)
			}
			return nil
		})
	}
	expect("the first routes")
	f.put(node("known", "mycloud://i-node-2", "10.244.8.0/24"))
	routes["10.244.8.0/24"] = "i-node-2"
	expect("the route of a node that joins initialized")
	f.put(node("new", "", "10.244.9.0/24"))
	f.update("new", func(n *corev1.Node) { n.Spec.ProviderID = "mycloud://i-node-3" })
	routes["10.244.9.0/24"] = "i-node-3"
	expect("the route of an initialized node")
	env.Eventually(t, limit, "the condition", func(context.Context) error { return f.says("new", "False RouteCreated") })
	f.update("new", func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.244.10.0/24"} })
	delete(routes, "10.244.9.0/24")
	routes["10.244.10.0/24"] = "i-node-3"
	expect("the route of another pod CIDR")
	f.deleteNode("new")
	delete(routes, "10.244.10.0/24")
	expect("the removal")
}
