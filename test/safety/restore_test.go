package safety

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/orphans"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/teardown"
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
		w.tag(found[0].LoadBalancer, w.get("web"))
		w.settle(0)
		w.updateService("web", func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeLoadBalancer })
		w.settle(0)
		if after := addresses(w.get("web")); !slices.Equal(before, after) {
			t.Errorf("the Service publishes %v, want %v", after, before)
		}
		w.finish()
	})
}

// TestOrphanWithPublishedAddress: after a restore, a Service publishes an address that the load balancer of its successor
// has, which the backup lacks. An operator cannot delete that by mistake. When it is given to the Service, its clients
// notice nothing.
func TestOrphanWithPublishedAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, size{nodes: 3, addresses: "203.0.113.0/29"})
		w.service("web", nil)
		w.start()
		w.settle(0)
		before, backup := addresses(w.get("web")), w.server.Backup()
		// The cloud assigns one of its few addresses after the other.
		for range 8 {
			w.deleteService("web")
			w.settle(0)
			w.service("web", nil)
			w.settle(0)
			if slices.Equal(addresses(w.get("web")), before) {
				break
			}
		}
		content := w.content()
		w.restoreEtcd(backup)
		w.start()
		w.settle(6 * time.Hour)
		found := w.listOrphans()
		if len(found) != 1 || !slices.Equal(found[0].Addresses(), before) {
			t.Fatalf("orphans %+v, want one with %v", found, before)
		}
		teardown.Execute(t.Context(), w.cloud, orphans.Plan(found))
		if now := w.content(); !maps.Equal(content, now) {
			t.Errorf("%v is now %v", content, now)
		}
		w.finish()
		svc := w.get("web")
		if record := svc.Annotations[service.AnnotationRecord]; !strings.Contains(record, found[0].ID) || !slices.Equal(addresses(svc), before) {
			t.Errorf("the Service publishes %v and records %s, want %v and %s", addresses(svc), record, before, found[0].ID)
		}
	})
}
