package recovery

import (
	"path/filepath"
	"testing"
)

// TestCloud executes the row in which the cloud forgets a load balancer.
func TestCloud(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("web-1", "web-2", "web-3", "web-4", "web-5")
	w.served("web-1", "web-2", "web-3", "web-4", "web-5")
	w.row(rowCloud, func() {
		backup := w.site.backup(t)
		w.create("lost")
		w.served("lost")
		w.site.restart(w.T, func() {
			w.site.restore(w.T, backup)
			// The cloud would assign the lost address again.
			w.create("new")
		})
		before := w.balancers()
		w.reports("new", "LoadBalancerMissing", "confirmed")
		w.served("lost", "new")
		w.keeps(before)
		w.ran(1)
	})
}

// TestBoth executes the row in which both forget something: etcd a Service, and the cloud more load balancers than are
// replaced without an operator.
func TestBoth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("web-1", "web-2", "web-3")
	w.served("web-1", "web-2", "web-3")
	w.row(rowBoth, func() {
		cloud := w.site.backup(t)
		lost := []string{"lost-1", "lost-2", "lost-3"}
		w.create(lost...)
		w.served(lost...)
		etcd := filepath.Join(t.TempDir(), "etcd")
		must(t, w.Backup(t.Context(), etcd))
		w.create("forgotten")
		w.served("forgotten")
		w.site.restart(w.T, func() {
			w.site.restore(w.T, cloud)
			must(t, w.Restore(t.Context(), etcd))
			w.create("new")
		})
		before := w.balancers()
		w.reports("new", "LoadBalancerMissing", "quayctl resume missing-load-balancers")
		w.reports("lost-1", "LoadBalancerMissing", "confirmed")
		w.event("BrakeEngaged", "quayctl resume missing-load-balancers")
		w.quayctl("resume", "missing-load-balancers")
		w.served(append(lost, "new")...)
		w.keeps(before)
	})
}
