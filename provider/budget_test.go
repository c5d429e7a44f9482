package provider_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/nodelifecycle"
)

// massacre returns a cluster all of whose machines the cloud reports as deleted.
func massacre(t *testing.T, nodes int) (*guarded, []*corev1.Node) {
	t.Helper()
	g := newGuarded(t)
	g.cloud.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(cloudv1.Instance{
			Object: cloudv1.Object{ID: path.Base(r.URL.Path)}, State: cloudv1.InstanceDeleted,
		})
		return true
	})
	all := make([]*corev1.Node, nodes)
	for i := range all {
		name := fmt.Sprintf("node-%d", i)
		all[i] = g.add(name, "mycloud://i-"+name)
	}
	return g, all
}

// bury checks each Node, as the lifecycle controller does, deletes those reported as gone, and returns their number.
func (g *guarded) bury(nodes ...*corev1.Node) int {
	g.t.Helper()
	gone := 0
	for _, n := range nodes {
		exists, err := g.InstanceExists(g.t.Context(), n)
		if err != nil || exists {
			continue
		}
		gone++
		if err := g.nodes.Delete(n); err != nil {
			g.t.Fatal(err)
		}
	}
	return gone
}

// forget drops the Events, which other tests check.
func (g *guarded) forget() {
	for len(g.events) > 0 {
		<-g.events
	}
}

func TestHowManyNodesGoAtOnce(t *testing.T) {
	for nodes, want := range map[int]int{1: 1, 4: 1, 39: 1, 40: 2, 100: 5, 199: 9} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			g, all := massacre(t, nodes)
			if got := g.bury(all...); got != want {
				t.Errorf("%d of %d Nodes are reported gone, want %d", got, nodes, want)
			}
			g.forget()
			g.expect("the others stay", held{tooMany: nodes - want})
		})
	}
}

// A Node that was reported as gone and still exists counts as one Node.
func TestNodesThatAreDeletedLateCountOnce(t *testing.T) {
	g, all := massacre(t, 39)
	if got := g.bury(all[0]); got != 1 {
		t.Fatal("the first Node stays")
	}
	g.put(all[0])
	if got := g.bury(all[1]); got != 0 {
		t.Error("two of 39 Nodes are reported gone")
	}
}

// The budget is for any period of ten minutes. Asking again within it for the same Nodes is free.
func TestBudgetSlides(t *testing.T) {
	g, all := massacre(t, 50)
	if got := g.bury(all[0]); got != 1 {
		t.Fatal("the first Node stays")
	}
	g.put(all[0]) // its deletion failed
	g.clock.SetTime(g.clock.Now().Add(9 * time.Minute))
	if got := g.bury(all[0], all[1]); got != 2 {
		t.Errorf("%d Nodes are reported gone, want the first again, and a second", got)
	}
	g.clock.SetTime(g.clock.Now().Add(time.Minute))
	if got := g.bury(all[2]); got != 1 {
		t.Error("the third Node stays, though the first is long gone")
	}
	if got := g.bury(all[3]); got != 0 {
		t.Error("three Nodes are reported gone within ten minutes")
	}
}

// Beyond the limit nothing resolves with time: an operator decides about each Node that is kept.
func TestPastTheLimitAPersonDecides(t *testing.T) {
	g, all := massacre(t, 4)
	if got := g.bury(all[0], all[1]); got != 1 {
		t.Fatalf("%d Nodes are reported gone, want 1", got)
	}
	const event = "Warning DeletionHeld The cloud reports instance i-node-1 as deleted, and those of too many other nodes, too. " +
		"The node is kept until you delete it or annotate it with quaymaster.dev/allow-deletion=true"
	g.expect("the second", held{tooMany: 1}, event)
	g.clock.SetTime(g.clock.Now().Add(24 * time.Hour))
	if got := g.bury(all[1], all[2]); got != 0 {
		t.Error("Nodes are reported as gone a day later, without an operator's decision")
	}
	g.expect("a day later", held{tooMany: 2}, "i-node-2")

	all[1].Annotations = map[string]string{nodelifecycle.AnnotationAllowDeletion: "true"}
	g.put(all[1])
	if got := g.bury(all[1], all[2]); got != 1 {
		t.Errorf("%d Nodes are reported as gone, want the one that the operator has annotated", got)
	}
	g.expect("one is allowed", held{tooMany: 1})
	if err := g.nodes.Delete(all[2]); err != nil {
		t.Fatal(err)
	}
	if got := g.bury(all[3]); got != 1 {
		t.Error("the last Node is kept, though the operator has deleted the one that was held")
	}
	g.expect("all is settled", held{})
}

// Nodes that are deleted from within the cluster do not count against the budget of the others.
func TestExpectedDeletionsAreFree(t *testing.T) {
	g, all := massacre(t, 4)
	all[0].Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}
	all[1].DeletionTimestamp = &metav1.Time{Time: g.clock.Now()}
	all[2].Annotations = map[string]string{nodelifecycle.AnnotationAllowDeletion: "true"}
	if got := g.bury(all...); got != 4 {
		t.Errorf("%d Nodes are reported gone, want three that are expected and one that is not", got)
	}
	other := g.add("node-5", "mycloud://i-node-5")
	other.Annotations = map[string]string{nodelifecycle.AnnotationAllowDeletion: "yes"}
	if got := g.bury(other); got != 0 {
		t.Error("a Node goes by an annotation that is not true")
	}
}
