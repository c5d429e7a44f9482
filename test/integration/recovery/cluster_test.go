package recovery

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/internal/kube/leadership"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/env"
)

// TestControllers executes the rows in which etcd and the cloud keep their state.
func TestControllers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("web-1", "web-2", "web-3")
	w.served("web-1", "web-2", "web-3")
	w.row(rowToken, func() { tokenRevoked(w) })
	w.row(rowLease, func() { leaseDeleted(w) })
	w.row(rowEndpoint, func() { endpointWrong(w) })
}

// TestEtcd executes the row in which etcd forgets a Service, and the last leader.
func TestEtcd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("web-1", "web-2", "web-3")
	w.served("web-1", "web-2", "web-3")
	w.row(rowEtcd, func() { etcdRestored(w) })
}

// TestClone executes the row in which another cluster is restored from a backup of etcd.
func TestClone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("web-1", "web-2", "web-3")
	w.served("web-1", "web-2", "web-3")
	w.row(rowClone, func() { clusterCloned(w) })
}

// The cloud rejects the token until the file has a new one.
func tokenRevoked(w *world) {
	before := w.balancers()
	w.site.restart(w.T, func() { writeToken(w.T, w.site.tokenFile, "new-"+w.token) })
	w.create("token")
	w.reports("token", "SyncFailing", "token")
	w.token = "new-" + w.token
	writeToken(w.T, w.tokenFile, w.token)
	w.served("token")
	w.keeps(before)
	w.ran(1)
}

// The lease is deleted while there is a leader, and while there is none: then the next one counts from the beginning, but
// the cloud has seen later leaders.
func leaseDeleted(w *world) {
	before := w.balancers()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leadership.Namespace, Name: leadership.CloudLease}}
	w.program.restart(w.T, func() {})
	w.create("second-leader")
	w.served("second-leader")
	seen := w.epoch()
	must(w.T, w.Client.Delete(w.Context(), lease.DeepCopy()))
	w.eventually("another lease", func(ctx context.Context) error {
		return w.Client.Get(ctx, client.ObjectKeyFromObject(lease), lease.DeepCopy())
	})
	w.create("lease-1")
	w.served("lease-1")
	w.program.restart(w.T, func() { must(w.T, w.Client.Delete(w.Context(), lease)) })
	w.create("lease-2")
	w.served("lease-2")
	if now := w.epoch(); seen == 0 || now <= seen {
		w.Errorf("the epoch is %d, was %d", now, seen)
	}
	w.keeps(before)
	w.ran(3)
}

// epoch returns that of the last leader that the cloud has seen.
func (w *world) epoch() uint64 {
	w.Helper()
	held, err := w.site.client.Holder(w.Context(), w.uid)
	must(w.T, err)
	return held.Epoch
}

// The endpoint leads to a cloud that does not know the load balancers, and says that the machines of all Nodes were
// deleted.
func endpointWrong(w *world) {
	before := w.balancers()
	wrong := newSite(w.T, w.Env, "wrong", w.token)
	instances, err := wrong.client.ListInstances(w.Context(), cloudapi.ListOptions{})
	must(w.T, err)
	for _, i := range instances.Items {
		_, err := wrong.client.DeleteInstance(w.Context(), i.ID, cloudapi.WriteOptions{})
		must(w.T, err)
	}
	state := wrong.state(w.T)
	began := time.Now()
	w.gateway.lead(wrong)
	w.silence(corev1.ConditionUnknown)
	w.create("wrong-1")
	w.annotate("web-1", "service.beta.kubernetes.io/dlb-listener-maxqps", "5000")
	w.reports("wrong-1", "CloudChanged", "quayctl takeover")
	w.reports("web-1", "CloudChanged", "quayctl takeover")
	w.event("CloudChanged", "fix the endpoint")

	w.program.restart(w.T, func() {})
	w.create("wrong-2")
	w.reports("wrong-2", "CloudChanged", "quayctl takeover")
	// One request finds out, and others may be on their way; then it is asked which cloud it is once in 30 seconds.
	asked := w.gateway.asked(wrong)
	if most := 20 + 4*int(time.Since(began).Minutes()); len(asked) > most {
		w.Errorf("requests to the wrong cloud in %s: %q", time.Since(began).Round(time.Second), asked)
	}
	if now := wrong.state(w.T); now != state {
		w.Errorf("the wrong cloud is at revision %s, was at %s", now, state)
	}
	w.guard.check(w.T)

	starts := w.program.starts.Load()
	w.gateway.lead(w.site)
	w.served("web-1", "wrong-1", "wrong-2")
	if now := w.program.starts.Load(); now != starts {
		w.Errorf("the controllers were started %d times, %d times before the endpoint was right", now, starts)
	}
	w.keeps(before)
	w.silence(corev1.ConditionTrue)
}

// TestReplaced: the endpoint leads to a different cloud for good, and the operator says so.
func TestReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	services := []string{"web-1", "web-2", "web-3"}
	w.create(services...)
	w.served(services...)
	w.site = newSite(t, w.Env, "replacement", w.token)
	w.gateway.lead(w.site)
	w.create("new")
	w.reports("new", "CloudChanged", "quayctl takeover")
	w.takeOver()
	w.program.restart(t, func() {}) // which is not necessary, but they ask only every 30 seconds
	w.reports("new", "LoadBalancerMissing", "quayctl resume missing-load-balancers")
	w.quayctl("resume", "missing-load-balancers")
	w.served(append(services, "new")...)
}

// The backup is older than the last Services and the last leader.
func etcdRestored(w *world) {
	backup := filepath.Join(w.TempDir(), "etcd")
	must(w.T, w.Backup(w.Context(), backup))
	w.create("after-backup")
	w.served("after-backup")
	w.program.restart(w.T, func() {})
	w.create("after-backup-too")
	w.served("after-backup-too")
	before := w.balancers()
	must(w.T, w.Restore(w.Context(), backup))
	w.create("etcd")
	w.served("etcd", "web-1")
	w.keeps(before)
}

// The clone has another certificate authority.
func clusterCloned(w *world) {
	backup := filepath.Join(w.TempDir(), "etcd")
	must(w.T, w.Backup(w.Context(), backup))
	before := w.balancers()
	clone := &world{T: w.T, token: w.token, tokenFile: w.tokenFile, site: w.site, Env: env.Start(w.T, env.Options{Backup: backup})}
	clone.gateway = newGateway(w.T, w.site)
	clone.run()
	clone.create("clone")
	clone.reports("clone", "ClusterUIDHeldByAnother", "quayctl takeover")
	clone.event("ClusterUIDHeldByAnother", "quayctl takeover")
	if writes := cloud.Writes(clone.gateway.asked(w.site)); len(writes) > 0 {
		w.Errorf("the clone wrote to the cloud: %q", writes)
	}
	w.create("original")
	w.served("original")
	clone.takeOver()
	clone.served("clone")
	w.create("original-too")
	w.reports("original-too", "ClusterUIDHeldByAnother", "quayctl takeover")
	w.keeps(before)
}
