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

	"quaymaster.dev/test/cloud"
)

// TestCallBudgets asserts how many calls of the cloud the controllers make, at two sizes. Every Service has two ports. The
// goal for the larger start-up is 20.
func TestCallBudgets(t *testing.T) {
	for _, tc := range []struct{ services, nodes, start int }{{100, 100, 8}, {1000, 1000, 25}} {
		t.Run(fmt.Sprintf("%d services, %d nodes", tc.services, tc.nodes), func(t *testing.T) {
			if tc.services > 100 && testing.Short() {
				t.Skip("takes a minute")
			}
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
	time.Sleep(8 * time.Second) // less than the period of any read
	w.spent("start-up, nothing changed", atStart, 0)

	w.settle(0) // what is done once in a while is done
	w.process.arm(0, false)
	w.updateNode("node-1", "", func(node *corev1.Node) { node.Annotations = map[string]string{ingressNode: "edge"} })
	w.updateService("s0", func(svc *corev1.Service) { svc.Annotations[annotation+"ingress-group"] = "edge" })
	time.Sleep(30 * time.Second)
	w.process.arm(0, false)
	w.updateNode("node-2", "", func(node *corev1.Node) { node.Annotations = map[string]string{ingressNode: "default,edge"} })
	time.Sleep(10 * time.Second)
	w.spent("an ingress node is marked", 3, 3)

	w.process.arm(0, false)
	w.updateNode("node-3", "", func(node *corev1.Node) { node.Labels["example.com/team"] = "shop" })
	time.Sleep(10 * time.Second)
	w.spent("a node changes in another way", 0, 0)

	w.process.arm(0, false)
	w.updateService("s1", func(svc *corev1.Service) { svc.Annotations[annotation+"listener-maxqps"] = "77" })
	time.Sleep(10 * time.Second)
	w.spent("an annotation changes", 1, 1)

	w.process.arm(0, false)
	w.updateService("s2", func(svc *corev1.Service) { svc.Annotations["example.com/team"] = "shop" })
	time.Sleep(10 * time.Second)
	w.spent("a foreign annotation changes", 0, 0)
	w.checkBalancers()
	w.stop()
	for _, v := range w.violations {
		t.Error(v)
	}
}

// start is less than the budget of any start-up, and more than that of any change.
const start = 5

// periodic are conditional reads of lists, which happen whatever changes and are mostly answered with 304.
var periodic = []string{
	http.MethodGet + " " + cloudHost + "/v1/route-tables/rt-main/routes", http.MethodGet + " " + cloudHost + "/v1/node-groups",
}

// spent compares the calls of the cloud with a budget. For changes, periodic reads do not count.
func (w *world) spent(what string, calls, writes int) {
	w.t.Helper()
	made := slices.DeleteFunc(w.process.made(), func(call string) bool {
		return !strings.Contains(call, " "+cloudHost+"/") || calls < start && slices.Contains(periodic, call)
	})
	for i := range made {
		made[i] = strings.Replace(made[i], cloudHost, "", 1)
	}
	wrote := cloud.Writes(made)
	w.t.Logf("%s: %d calls, %d writes (at most %d, %d)", what, len(made), len(wrote), calls, writes)
	if len(made) > calls || len(wrote) > writes {
		w.t.Errorf("%s: %d calls, at most %d are allowed: %q", what, len(made), calls, made)
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
