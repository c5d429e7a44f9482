package safety

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/kube/condition"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/holder"
	"quaymaster.dev/test/harness/cloud"
)

// clone restores the cluster from a backup, with the same cloud: the copy has the same objects and UIDs, and another
// certificate authority.
func (w *world) clone(authority string) *world {
	w.t.Helper()
	c := newCluster(w.t, w.site, w.ledger, w.uid, authority)
	c.clusterID = w.clusterID
	c.server.Restore(w.server.Backup())
	c.reread()
	w.t.Cleanup(c.stop)
	return c
}

// content returns the revisions of what the cluster has in the cloud.
func (w *world) content() map[string]string {
	w.t.Helper()
	found := map[string]string{}
	balancers, err := w.cloud.ListLoadBalancers(w.t.Context(), cloudapi.ListOptions{})
	w.must(err)
	for _, lb := range balancers.Items {
		found[lb.ID] = lb.Revision
	}
	groups, err := w.cloud.ListNodeGroups(w.t.Context(), cloudapi.ListOptions{})
	w.must(err)
	for _, group := range groups.Items {
		found[group.ID] = group.Revision
	}
	routes, err := w.cloud.ListRoutes(w.t.Context(), "rt-main", cloudapi.ListOptions{})
	w.must(err)
	for _, route := range routes.Items {
		found[route.ID] = route.Revision
	}
	return found
}

// changeEverything changes the Service web, deletes the Service api, adds the Service new and a Node.
func (w *world) changeEverything(node int) {
	w.t.Helper()
	w.updateService("web", func(svc *corev1.Service) { svc.Annotations[annotation+"listener-maxqps"] = "77" })
	w.deleteService("api")
	w.service("new", nil)
	w.addNode(node)
}

// claim makes the cluster the holder, as quayctl takeover does.
func (w *world) claim() {
	w.t.Helper()
	was, err := holder.Read(w.t.Context(), w.cloud, w.uid)
	w.must(err)
	w.must(holder.Claim(w.t.Context(), w.cloud, was, w.uid, cloudv1.ClusterHolderSpec{
		Name: w.clusterID, Fingerprints: []string{w.authority},
	}))
}

// configured returns the condition about the load balancer of a Service.
func (w *world) configured(name string) *metav1.Condition {
	w.t.Helper()
	svc, err := w.api.CoreV1().Services(namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	w.must(err)
	return meta.FindStatusCondition(svc.Status.Conditions, condition.Configured)
}

// TestClone: of two clusters with the same UIDs, only the one that holds the UID writes to the cloud. The other one says
// so on its Services. A takeover moves the right to write.
func TestClone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		original := newWorld(t, size{nodes: 3})
		original.service("web", nil)
		original.service("api", nil)
		original.start()
		original.settle(0)
		clone := original.clone("sha256:clone")
		before := original.content()

		clone.start()
		clone.settle(0)
		clone.changeEverything(4)
		clone.settle(2 * time.Hour)
		if after := original.content(); !maps.Equal(before, after) {
			t.Errorf("the clone has changed the cloud: %v is now %v", before, after)
		}
		if wrote := sent(clone); len(wrote) > 0 {
			t.Errorf("the clone has sent %q", wrote)
		}
		for _, name := range []string{"web", "api", "new"} {
			c := clone.configured(name)
			if c == nil || c.Status == metav1.ConditionTrue || c.Reason != "ClusterUIDHeldByAnother" ||
				!strings.Contains(c.Message, "sha256:original") || !strings.Contains(c.Message, "quayctl takeover") {
				t.Errorf("the clone reports about %s: %+v", name, c)
			}
		}
		if clone.process.died() {
			t.Error("the controllers of the clone have ended")
		}

		// The original goes on.
		original.service("more", nil)
		original.settle(0)
		if c := original.configured("more"); c == nil || c.Status != metav1.ConditionTrue {
			t.Errorf("the original does not write: %+v", c)
		}
		original.deleteService("more")
		original.settle(0)

		clone.claim()
		time.Sleep(35 * time.Second)
		for _, name := range []string{"web", "new"} {
			if c := clone.configured(name); c == nil || c.Status != metav1.ConditionTrue {
				t.Errorf("after the takeover, the clone reports about %s: %+v", name, c)
			}
		}
		clone.settle(0)
		before = original.content()
		original.process.arm(0, false)
		original.service("late", nil)
		original.updateService("web", func(svc *corev1.Service) { svc.Annotations[annotation+"listener-maxqps"] = "5" })
		original.settle(0)
		if after := original.content(); !maps.Equal(before, after) {
			t.Errorf("the original has changed the cloud after the takeover: %v is now %v", before, after)
		}
		if c := original.configured("late"); c == nil || c.Reason != "ClusterUIDHeldByAnother" {
			t.Errorf("the original reports after the takeover: %+v", c)
		}
		original.stop()
		clone.finish()
	})
}

// sent returns the writes to the cloud since the controllers have started.
func sent(w *world) []string {
	return slices.DeleteFunc(cloud.Writes(w.process.made()), func(call string) bool {
		return !strings.Contains(call, " "+cloudHost+"/")
	})
}

// TestSameAuthority: a cluster that is rebuilt with its certificate authority is the same one.
func TestSameAuthority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		original := newWorld(t, size{nodes: 3})
		original.service("web", nil)
		original.start()
		original.settle(0)
		original.stop()
		rebuilt := original.clone(original.authority)
		rebuilt.start()
		rebuilt.service("new", nil)
		rebuilt.settle(0)
		rebuilt.finish()
	})
}

// TestHolderIsUnknown: while it cannot be found out which cluster holds the UID, nothing is written.
func TestHolderIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, size{nodes: 3})
		refuse := problem(http.StatusServiceUnavailable, cloudv1.CodeUnavailable, "")
		w.setFaults(func(rw http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/holder") {
				return false
			}
			refuse(rw, r)
			return true
		})
		w.service("web", nil)
		w.start()
		w.settle(0)
		if wrote := sent(w); len(wrote) > 0 {
			t.Errorf("sent %q", wrote)
		}
		w.setFaults(nil)
		w.settle(0)
		w.finish()
	})
}
