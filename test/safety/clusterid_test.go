package safety

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/holder"
)

// TestAnotherClusterID: with a clusterID that differs from the one that the cluster's objects are named after, nothing is
// written before an operator has confirmed it, whether or not there is a record of the holder.
func TestAnotherClusterID(t *testing.T) {
	for name, forget := range map[string]bool{"with a record": false, "of an earlier version": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, size{nodes: 3})
				w.service("web", nil)
				w.service("api", nil)
				w.start()
				w.settle(0)
				w.stop()
				if forget {
					was, err := holder.Read(t.Context(), w.cloud, clusterUID)
					w.must(err)
					w.must(w.cloud.DeleteHolder(t.Context(), clusterUID, cloudapi.WriteOptions{IfMatch: was.Revision}))
				}
				before := w.content()

				w.clusterID = "prod"
				w.start()
				w.settle(0)
				w.changeEverything(4)
				w.settle(0)
				if after := w.content(); !maps.Equal(before, after) {
					t.Errorf("the cloud was changed: %v is now %v", before, after)
				}
				for _, name := range []string{"web", "api", "new"} {
					c := w.configured(name)
					if c == nil || c.Status == metav1.ConditionTrue || c.Reason != "ClusterIDChanged" || !strings.Contains(c.Message, `"prod"`) ||
						!strings.Contains(c.Message, "dev") || !strings.Contains(c.Message, "quayctl takeover") {
						t.Errorf("the condition of %s: %+v", name, c)
					}
				}
				if w.process.died() {
					t.Error("the controllers have ended")
				}

				w.claim()
				w.settle(0)
				list, err := w.cloud.ListLoadBalancers(t.Context(), cloudapi.ListOptions{})
				w.must(err)
				for _, lb := range list.Items {
					if !strings.HasPrefix(lb.Name, "prod-") {
						t.Errorf("after the confirmation, %s is named %q", lb.ID, lb.Name)
					}
				}
				w.finish()
			})
		})
	}
}

// TestClusterIDIsCorrected: the controllers go on when the former clusterID is back.
func TestClusterIDIsCorrected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, size{nodes: 3})
		w.service("web", nil)
		w.start()
		w.settle(0)
		for _, id := range []string{"prod", "dev"} {
			w.stop()
			w.clusterID = id
			w.start()
			w.updateService("web", func(svc *corev1.Service) { svc.Annotations[annotation+"listener-maxqps"] = "77" })
			w.settle(0)
		}
		w.finish()
	})
}
