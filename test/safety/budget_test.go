package safety

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/test/harness/cloud"
)

// TestCallBudgets asserts how many calls of the cloud the controllers make, at two sizes. Every Service has two ports.
func TestCallBudgets(t *testing.T) {
	for _, tc := range []struct{ services, nodes, start int }{{100, 100, 8}, {1000, 1000, 20}} {
		t.Run(fmt.Sprintf("%d services, %d nodes", tc.services, tc.nodes), func(t *testing.T) {
			if tc.services > 100 && testing.Short() {
				t.Skip("takes a minute")
			}
			figure(t, "calls of the cloud with %d services and %d nodes:", tc.services, tc.nodes)
			synctest.Test(t, func(t *testing.T) { budgets(t, tc.services, tc.nodes, tc.start) })
		})
	}
}

func budgets(t *testing.T, services, nodes, atStart int) {
	w := newWorld(t, size{nodes: nodes, addresses: "100.64.0.0/16"})
	for i := range services {
		w.service(fmt.Sprintf("s%d", i), func(svc *corev1.Service) {
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "tls", Port: 443, Protocol: corev1.ProtocolTCP, NodePort: int32(20000 + i)})
		})
	}
	w.start()
	w.settle(0)
	w.settle(0)

	w.stop()
	w.start()
	time.Sleep(20 * time.Second)
	w.spent("start-up, nothing changed", budget{calls: atStart, polls: 1})

	w.settle(0)
	w.process.arm(0, false)
	time.Sleep(10 * time.Minute)
	w.spent("10 idle minutes", budget{calls: 5, polls: 12})

	mark := func(node, groups string) {
		w.updateNode(node, "", func(node *corev1.Node) { node.Annotations = map[string]string{ingressNode: groups} })
	}
	mark("node-1", "edge")
	// If the Service came first, the group would begin with all Nodes, and lose them one by one.
	time.Sleep(time.Second)
	w.updateService("s0", func(svc *corev1.Service) { svc.Annotations[annotation+"ingress-group"] = "edge" })
	w.settle(0)
	w.change("an ingress node is marked", budget{calls: 3, writes: 1, polls: 2}, func() { mark("node-2", "edge") })
	w.change("a node changes in another way", budget{}, func() {
		w.updateNode("node-3", "", func(node *corev1.Node) { node.Labels["example.com/team"] = "shop" })
	})
	w.change("an annotation changes", budget{calls: 1, writes: 1, polls: 2}, func() {
		w.updateService("s1", func(svc *corev1.Service) { svc.Annotations[annotation+"listener-maxqps"] = "77" })
	})
	w.change("a foreign annotation changes", budget{}, func() {
		w.updateService("s2", func(svc *corev1.Service) { svc.Annotations["example.com/team"] = "shop" })
	})
	if nodes < 1000 {
		// Their machines are created at the same time. What is changed together depends on the order of what happens at once.
		w.change("500 nodes join in 10 s", budget{calls: 42, writes: 32, polls: 22}, func() {
			for i := range 500 {
				w.addNode(nodes + 1 + i)
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	w.checkBalancers()
	w.checkNodes()
	w.stop()
	for _, v := range w.violations {
		t.Error(v)
	}
}

// budget is the number of calls that are allowed. Writes are calls, too; requests for changes, which the cloud holds
// until there is one, are not.
type budget struct{ calls, writes, polls int }

// change makes a change and compares what the controllers do within 40 s with a budget. That is longer than any period,
// except that of requests for changes.
func (w *world) change(what string, allowed budget, act func()) {
	w.t.Helper()
	allowed.polls++
	w.process.arm(0, false)
	act()
	time.Sleep(40 * time.Second)
	w.spent(what, allowed)
}

// spent compares the calls of the cloud with a budget.
func (w *world) spent(what string, allowed budget) {
	w.t.Helper()
	made := slices.DeleteFunc(w.process.made(), func(call string) bool { return !strings.Contains(call, " "+cloudHost+"/") })
	for i := range made {
		made[i] = strings.Replace(made[i], cloudHost, "", 1)
	}
	spent := budget{calls: len(made), writes: len(cloud.Writes(made)), polls: w.process.polled()}
	figure(w.t, "  %s: %d calls, %d of them writes, and %d requests for changes (at most %d, %d, %d)",
		what, spent.calls, spent.writes, spent.polls, allowed.calls, allowed.writes, allowed.polls)
	if spent.calls > allowed.calls || spent.writes > allowed.writes || spent.polls > allowed.polls {
		w.t.Errorf("%s: %+v, at most %+v are allowed: %q", what, spent, allowed, made)
	}
}

// TestManyNewServices: with jobs of 30 s, the creation of every load balancer starts at once.
func TestManyNewServices(t *testing.T) {
	const many = 200
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, size{nodes: 3, jobs: 30 * time.Second, addresses: "100.64.0.0/16"})
		w.start()
		w.settle(0)
		w.process.arm(0, false)
		for i := range many {
			w.service(fmt.Sprintf("s%d", i), nil)
		}
		time.Sleep(10 * time.Second)
		started := 0
		for _, call := range w.process.made() {
			if call == http.MethodPost+" "+cloudHost+"/v1/load-balancers" {
				started++
			}
		}
		if started < many {
			t.Errorf("after 10 s, the creation of %d of %d load balancers has started", started, many)
		}
		w.settle(0)
		w.finish()
	})
}
