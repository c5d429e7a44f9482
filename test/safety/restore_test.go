package safety

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/ownership"
)

// TestRestoredEtcd: load balancers whose Services are missing in a restored backup of etcd, or did not ask for them at
// that time, keep serving.
func TestRestoredEtcd(t *testing.T) {
	for name, restore := range map[string]func(*world, string){
		"the Services do not exist":        (*world).lose,
		"the Services are of another type": (*world).reset,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, size{nodes: 3})
				const all, newer = 10, 2
				for i := range all {
					w.service(fmt.Sprintf("s%d", i), nil)
				}
				w.start()
				w.settle(0)
				w.stop()
				for i := range newer {
					restore(w, fmt.Sprintf("s%d", i))
				}
				w.start()
				w.settle(6 * time.Hour)
				list, err := w.cloud.ListLoadBalancers(t.Context(), cloudapi.ListOptions{Tags: map[string]string{ownership.ClusterUID: w.uid}})
				w.must(err)
				if reported := w.reportedOrphans(); len(list.Items) != all || reported != newer {
					t.Errorf("%d of %d load balancers are left, %d are reported", len(list.Items), all, reported)
				}
				w.finish()
			})
		})
	}
}

// TestOrphanIsUsedAgain: a load balancer without a Service can be given to a new one, which then has its address.
func TestOrphanIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, size{nodes: 3})
		w.service("web", nil)
		w.start()
		w.settle(0)
		before := addresses(w.get("web"))
		w.stop()
		w.lose("web")
		w.start()
		w.settle(0)

		w.service("web", func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeClusterIP })
		found := w.listOrphans()
		if len(found) != 1 {
			t.Fatalf("%d orphans", len(found))
		}
		uid := string(w.get("web").UID)
		_, _, err := w.cloud.PatchLoadBalancer(t.Context(), found[0].ID,
			cloudv1.LoadBalancerPatch{Tags: map[string]*string{ownership.ServiceUID: &uid}}, cloudapi.WriteOptions{IfMatch: found[0].Revision})
		w.must(err)
		w.settle(0)
		w.updateService("web", func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeLoadBalancer })
		w.settle(0)
		if after := addresses(w.get("web")); !slices.Equal(before, after) {
			t.Errorf("the Service publishes %v, want %v", after, before)
		}
		w.finish()
	})
}
