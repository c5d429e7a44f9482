package safety

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quaymaster.dev/internal/kube/contact"
	"quaymaster.dev/internal/mycloud/server/inventory"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/kubeapi"
)

// outage is how long an API server or a cloud may be down while it is restored.
const outage = 2 * time.Minute

// etcdBackup is a backup of etcd, which includes the lease of the controllers.
type etcdBackup struct {
	kubeapi.Backup
	epoch int64
}

func (c *member) backUp() { c.backup = &etcdBackup{Backup: c.server.Backup(), epoch: c.epoch} }

func (q *sequence) backUp() { q.backup = q.site.backup(q.clusters[0].machines()) }

func (q *sequence) backUpEtcd(c *member) string {
	if !c.knowsCloud() {
		return c.says("etcd has nothing of the cloud")
	}
	c.backUp()
	return c.says("etcd is backed up")
}

func (q *sequence) backUpCloud(*member) string {
	q.backUp()
	return "the cloud is backed up"
}

// restoreEtcd restores etcd. Without the API server, the controllers lose their lease and end. Kubelets whose Nodes are
// missing register again.
func (q *sequence) restoreEtcd(c *member) string {
	if c.copied || c.backup == nil {
		return c.says("etcd has no backup")
	}
	q.counts.Note("etcd-restores", 1)
	nodes := c.names()
	c.restoreEtcd(c.backup.Backup)
	c.epoch = c.backup.epoch
	time.Sleep(time.Duration(q.random.Int64N(int64(outage))))
	running, restored := c.runningMachines(), c.names()
	for name := range nodes {
		if running[name] && !restored[name] {
			var n int
			_, err := fmt.Sscanf(name, "node-%d", &n)
			c.must(err)
			c.addNode(n)
		}
	}
	c.report()
	c.start()
	return c.says("etcd is restored")
}

// restoreEtcd stops the controllers and restores a backup of etcd.
func (w *world) restoreEtcd(b kubeapi.Backup) {
	w.stop()
	w.mu.Lock()
	were := maps.Clone(w.services)
	w.mu.Unlock()
	w.server.Restore(b)
	w.ledger.restoredEtcd(w, were)
}

// names returns the names of the Nodes.
func (c *member) names() map[string]bool {
	list, err := c.api.CoreV1().Nodes().List(c.t.Context(), metav1.ListOptions{})
	c.must(err)
	names := map[string]bool{}
	for i := range list.Items {
		names[list.Items[i].Name] = true
	}
	return names
}

// restoreCloud restores the cloud while the controllers run.
func (q *sequence) restoreCloud(*member) string {
	q.counts.Note("cloud-restores", 1)
	first := q.clusters[0]
	q.restore(q.backup, first.machines(), time.Duration(q.random.Int64N(int64(outage))))
	first.ledger.restoredCloud(first.machines())
	for _, c := range q.clusters {
		// What a kubelet reports has nothing to do with the cloud, but its machine may run again.
		c.report()
	}
	return "the cloud is restored"
}

func (q *sequence) restoreBoth(c *member) string {
	if !c.copied {
		c.stop()
	}
	return q.restoreCloud(c) + ", " + q.restoreEtcd(c)
}

// loseLease makes another leader start while a write of the one before is still on its way to the cloud.
func (q *sequence) loseLease(c *member) string {
	late := time.Duration(1+q.random.IntN(20)) * time.Second
	q.counts.Note("leases-lost", 1)
	old, running := c.process, c.running
	old.lose(late)
	c.running = nil
	c.start()
	time.Sleep(late + time.Second)
	old.end()
	running.Wait()
	return c.says("the lease is lost, and a write arrives %s late", late)
}

// loseService ends a Service whose finalizer a user removes.
func (q *sequence) loseService(c *member) string {
	name := q.name()
	svc := c.changeable(name)
	if svc == nil || c.copied || !ours(svc) || slices.Contains(svc.Finalizers, foreignFinalizer) {
		return name + " cannot be lost"
	}
	c.lose(name)
	return c.says("%s is deleted without its finalizer", name)
}

// wrongClouds are those to which endpoints may lead by mistake.
func wrongClouds() []string { return []string{"empty", "with other machines"} }

// goAstray makes the endpoint of a cluster lead to a healthy cloud that is not its own.
func (q *sequence) goAstray(c *member) string {
	names := wrongClouds()
	name, restart := names[q.random.IntN(len(names))], q.random.IntN(2) == 0
	if c.astray.Load() != nil {
		return c.says("the endpoint is wrong already")
	}
	if !c.knowsCloud() {
		return c.says("the controllers have not reached the cloud yet")
	}
	q.counts.Note("wrong-endpoints", 1)
	c.astray.Store(q.wrongCloud(name))
	if restart {
		c.start()
	}
	return c.says("the endpoint leads to another cloud: %s; restarted: %t", name, restart)
}

// knowsCloud reports whether a cluster remembers its cloud. Until then, it takes any cloud for its own.
func (c *member) knowsCloud() bool {
	id, err := contact.Memory{Client: c.api, Namespace: metav1.NamespaceSystem}.CloudID(c.t.Context())
	c.must(err)
	return id != ""
}

func (q *sequence) comeBack(c *member) string {
	restart := q.random.IntN(2) == 0
	if c.astray.Swap(nil) == nil {
		return c.says("the endpoint is right")
	}
	if restart {
		c.start()
	}
	return c.says("the endpoint is corrected; restarted: %t", restart)
}

// wrongCloud returns a cloud to which nothing of the clusters belongs.
func (q *sequence) wrongCloud(name string) *site {
	if s := q.wrong[name]; s != nil {
		return s
	}
	stock := cloud.ExampleInventory(q.t)
	if name == "empty" {
		stock = &inventory.Inventory{}
	}
	s := newSite(q.t, stock, size{jobs: time.Second})
	l := q.clusters[0].ledger
	s.wrote = func(write func() int, r *http.Request) {
		if uid, _ := fenceOf(r); write() < http.StatusBadRequest && uid != "" {
			l.violation("cluster %s has written to another cloud: %s %s", uid, r.Method, r.URL.Path)
		}
	}
	if q.wrong == nil {
		q.wrong = map[string]*site{}
	}
	q.wrong[name] = s
	return s
}

// addCluster adds a second cluster, with a UID and machines of its own.
func (q *sequence) addCluster(*member) string {
	first := q.clusters[0]
	for _, c := range q.clusters {
		if c.uid != first.uid {
			return "there are two clusters already"
		}
	}
	q.counts.Note("clusters", 1)
	w := newCluster(first.world.t, q.site, first.ledger, strings.Replace(clusterUID, "c1a5", "beef", 1), "sha256:second")
	w.clusterID = "second"
	c := &member{world: w, first: 1000, nodes: 2}
	c.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: types.UID(c.uid)}})
	c.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	for n := range c.nodes {
		c.addNode(c.first + 1 + n)
	}
	w.t.Cleanup(w.stop)
	q.clusters = append(q.clusters, c)
	c.start()
	return c.says("is new")
}

// clone restores a backup of the first cluster as another cluster, or ends a copy that there is.
func (q *sequence) clone(*member) string {
	if q.endCopies() {
		return "the copy ends"
	}
	first := q.clusters[0]
	q.counts.Note("clusters", 1)
	w := newCluster(first.world.t, q.site, first.ledger, first.uid, "sha256:clone")
	w.clusterID, w.copied = first.clusterID, true
	w.server.Restore(first.backup.Backup)
	w.epoch = first.backup.epoch
	w.reread()
	w.ledger.copied(w)
	w.t.Cleanup(w.stop)
	c := &member{world: w, nodes: first.nodes}
	q.clusters = append(q.clusters, c)
	c.start()
	return c.says("is a copy")
}

// endCopies ends copies of clusters, and reports whether there were any.
func (q *sequence) endCopies() bool {
	before := len(q.clusters)
	q.clusters = slices.DeleteFunc(q.clusters, func(c *member) bool {
		if c.copied {
			c.stop()
		}
		return c.copied
	})
	return len(q.clusters) < before
}
