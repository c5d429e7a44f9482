package safety

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/migrate"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/teardown"
)

// successor creates a new cluster on the same machines, with the same manifests: everything has another UID.
func (w *world) successor() *world {
	w.t.Helper()
	n := newCluster(w.t, w.site, w.ledger, "00000000-0000-0000-0000-00000000beef", "sha256:successor")
	n.ledger.worlds = []*world{n} // the old cluster is gone
	n.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: types.UID(n.uid)}})
	n.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	for i := 1; i <= 3; i++ {
		n.addNode(i)
	}
	w.t.Cleanup(n.stop)
	return n
}

// migrate does what quayctl migrate --yes does. The calls go through a process that may be killed.
func (w *world) migrate(from *world, p *process) []error {
	w.t.Helper()
	ctx := w.t.Context()
	api, err := kubernetes.NewForConfig(w.server.Config(p.wrap))
	w.must(err)
	cloud := newClient(w.t, p.wrap(w.back.Transport()))
	owned := func(world *world) migrate.Cluster {
		found, err := teardown.Take(ctx, w.cloud, world.uid)
		w.must(err)
		return migrate.Cluster{UID: world.uid, ID: world.clusterID, Owned: found}
	}
	services, err := w.api.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	w.must(err)
	m := migrate.Migration{Cloud: cloud, Services: api.CoreV1(), From: from.uid, To: w.uid}
	return m.Execute(ctx, migrate.Plan(owned(from), owned(w), services.Items))
}

// balancers returns the addresses of the cluster's load balancers by their IDs.
func (w *world) balancers() map[string]string {
	w.t.Helper()
	list, err := w.cloud.ListLoadBalancers(w.t.Context(), cloudapi.ListOptions{Tags: map[string]string{ownership.ClusterUID: w.uid}})
	w.must(err)
	found := map[string]string{}
	for _, lb := range list.Items {
		found[lb.ID] = lb.VIPs[0].Address
	}
	return found
}

// TestMigrate: a cluster that replaces another one takes over its load balancers with their addresses, wherever the
// migration is interrupted and repeated.
func TestMigrate(t *testing.T) {
	calls := 0
	synctest.Test(t, func(t *testing.T) { calls = migrated(t, 0, false) })
	if calls < 6 {
		t.Fatalf("the migration makes %d calls", calls)
	}
	for n := 1; n <= calls; n++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("killed at call %d, after it %t", n, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { migrated(t, n, after) })
			})
		}
	}
}

func migrated(t *testing.T, killed int, after bool) (calls int) {
	services := func(w *world) {
		w.service("web", nil)
		w.service("api", func(svc *corev1.Service) { svc.Annotations[annotation+"deletion-protection"] = "true" })
	}
	old := newWorld(t, size{nodes: 3})
	services(old)
	old.start()
	old.settle(0)
	before := old.balancers()
	old.stop()

	w := old.successor()
	services(w)
	p := &process{kill: func() {}}
	p.arm(killed, after)
	failed := w.migrate(old, p)
	calls = len(p.made())
	if killed > 0 {
		failed = w.migrate(old, &process{kill: func() {}})
	}
	for _, err := range failed {
		if err != nil {
			t.Error(err)
		}
	}
	w.start()
	w.settle(0)
	if now := w.balancers(); !maps.Equal(before, now) {
		t.Errorf("the load balancers were %v, and are %v", before, now)
	}
	if left, err := teardown.Take(t.Context(), w.cloud, old.uid); err != nil || len(left.LoadBalancers)+len(left.NodeGroups)+len(left.Routes) > 0 {
		t.Errorf("the old cluster still owns %+v, %v", left, err)
	}
	if made := creations(w); len(made) > 0 {
		t.Errorf("the new cluster has created or deleted %q", made)
	}
	var published []string
	list, err := w.api.CoreV1().Services(namespace).List(t.Context(), metav1.ListOptions{})
	w.must(err)
	for i := range list.Items {
		published = append(published, addresses(&list.Items[i])...)
	}
	if want := slices.Sorted(maps.Values(before)); !slices.Equal(slices.Sorted(slices.Values(published)), want) {
		t.Errorf("the new cluster publishes %v, want %v", published, want)
	}
	w.finish()
	return calls
}

// TestMigrationIsNotFinished: controllers that start in the middle of a migration create nothing in place of what is not
// moved yet.
func TestMigrationIsNotFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := newWorld(t, size{nodes: 3})
		old.service("web", nil)
		old.start()
		old.settle(0)
		before := old.balancers()
		old.stop()
		w := old.successor()
		w.service("web", nil)
		p := &process{kill: func() {}}
		p.arm(3, false)
		w.migrate(old, p)
		if made := p.made(); len(made) != 3 || !strings.Contains(made[2], "/v1/load-balancers/") {
			t.Fatalf("the migration has made %q", made)
		}
		w.start()
		w.settle(2 * time.Hour)
		if now := w.balancers(); len(now) > 0 {
			t.Errorf("the new cluster has created %v", now)
		}
		if c := w.configured("web"); c == nil || c.Reason != "LoadBalancerNotOwned" {
			t.Errorf("the condition is %+v", c)
		}
		w.stop()
		for _, err := range w.migrate(old, &process{kill: func() {}}) {
			if err != nil {
				t.Error(err)
			}
		}
		w.start()
		w.settle(0)
		if now := w.balancers(); !maps.Equal(before, now) {
			t.Errorf("the load balancers were %v, and are %v", before, now)
		}
		w.finish()
	})
}

// creations returns the creations and deletions of load balancers and node groups by the controllers.
func creations(w *world) []string {
	return slices.DeleteFunc(w.process.made(), func(call string) bool {
		method, rest, _ := strings.Cut(call, " ")
		return method != http.MethodPost && method != http.MethodDelete ||
			!strings.Contains(rest, "/v1/load-balancers") && !strings.Contains(rest, "/v1/node-groups")
	})
}

// TestMigrateWhileTheNewClusterHasItsOwn: what the new cluster has created itself stays in use.
func TestMigrateWhileTheNewClusterHasItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := newWorld(t, size{nodes: 3})
		old.service("web", nil)
		old.service("api", nil)
		old.start()
		old.settle(0)
		before := old.balancers()
		old.stop()
		w := old.successor()
		w.service("web", nil)
		w.start()
		w.settle(0)
		own := w.balancers()
		w.stop()
		w.service("api", nil)
		for _, err := range w.migrate(old, &process{kill: func() {}}) {
			if err != nil {
				t.Error(err)
			}
		}
		w.start()
		w.settle(0)
		w.stop()
		now := w.balancers()
		for id, address := range own {
			if now[id] != address {
				t.Errorf("the new cluster's own load balancer %s is gone: %v", id, now)
			}
			delete(now, id)
		}
		for id, address := range now {
			if before[id] != address {
				t.Errorf("load balancer %s with %s was not migrated: %v", id, address, before)
			}
		}
		if left := old.balancers(); len(now) != 1 || len(left) != 1 {
			t.Errorf("migrated: %v, left: %v, want one each", now, left)
		}
		w.checkBalancers()
		for _, v := range w.violations {
			t.Error(v)
		}
	})
}
