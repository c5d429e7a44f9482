package edge_test

import (
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// An API that is restored from a backup, as docs/operations/backup.md says, interrupts no traffic of load balancers that
// the backup has, and the edge converges to the restored state.
func TestRestoredAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 2)
	direct, directAt := w.create(w.spec("direct", cloudv1.ProtocolTCP, 80))
	proxy, proxyAt := w.create(w.spec("proxy", cloudv1.ProtocolTCP, 80, mode(cloudv1.VIPModeProxy)))
	loads := map[string]*load{"direct": w.requests(directAt, 100), "proxy": w.requests(proxyAt, 100)}
	loads["long, direct"], _ = w.long(directAt, 20)
	loads["long, proxy"], _ = w.long(proxyAt, 20)
	id := w.onlyEdge().ID

	data, backup := filepath.Join(w.dir, "api"), filepath.Join(w.dir, "backup")
	w.stopAPI()
	w.must(os.CopyFS(backup, os.DirFS(data)))
	w.startAPI()
	w.answers()
	lost, lostAt := w.create(w.spec("lost", cloudv1.ProtocolTCP, 81, mode(cloudv1.VIPModeProxy)))
	w.update(proxy.ID, addListener("tcp/9000", 9000))

	w.stopAPI()
	w.must(os.Rename(data, data+".old"))
	w.must(os.CopyFS(data, os.DirFS(backup)))
	w.startAPI()
	w.answers()
	w.eventually("the edge drops what the backup does not have", func() bool {
		_, _, err := w.ask("tcp", lostAt)
		return err != nil
	})
	if _, err := w.cloud.LoadBalancer(t.Context(), lost.ID); !cloudapi.IsAbsent(err) {
		t.Errorf("the load balancer that the backup does not have: error %v", err)
	}
	// These wait for the edge, and use numbers of the lost state again. The last one may get an address of that state.
	w.update(direct.ID, addListener("tcp/9000", 9000))
	_, laterAt := w.create(w.spec("later", cloudv1.ProtocolTCP, 82, mode(cloudv1.VIPModeProxy)))
	if _, _, err := w.ask("tcp", laterAt); err != nil {
		t.Errorf("a load balancer that was created after the restore: %v", err)
	}
	for name, l := range loads {
		if err := l.end(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, before := range []*cloudv1.LoadBalancer{direct, proxy} {
		now, err := w.cloud.LoadBalancer(t.Context(), before.ID)
		w.must(err)
		if !reflect.DeepEqual(now.VIPs, before.VIPs) || now.ProvisioningState != cloudv1.ProvisioningActive {
			t.Errorf("%s is %s with %+v, was with %+v", now.Name, now.ProvisioningState, now.VIPs, before.VIPs)
		}
	}
	if e := w.onlyEdge(); e.ID != id || e.State != cloudv1.EdgeActive || len(e.Faults) > 0 {
		t.Errorf("the edge is %+v", e)
	}
}

// onlyEdge returns the edge of the API.
func (w *world) onlyEdge() cloudv1.Edge {
	w.Helper()
	list, err := w.cloud.ListEdges(w.Context(), cloudapi.ListOptions{})
	w.must(err)
	if len(list.Items) != 1 {
		w.Fatalf("there are %d edges", len(list.Items))
	}
	return list.Items[0]
}

// stopAPI ends mycloud serve as systemctl stop does, and its etcd.
func (w *world) stopAPI() {
	w.Helper()
	w.must(w.api.Process.Signal(syscall.SIGTERM))
	w.must(w.api.Wait())
	if w.etcd != nil {
		kill(w.etcd)
		w.etcd = nil
	}
}
