package safety

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"quaymaster.dev/internal/cloudapi"
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
