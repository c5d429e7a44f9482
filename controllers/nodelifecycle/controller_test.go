package nodelifecycle_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	clienttesting "k8s.io/client-go/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/nodelifecycle"
	"quaymaster.dev/internal/kube/brakes"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/harness/cloud"
)

// bubble runs a test in virtual time.
func bubble(t *testing.T, nodes int, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nodes)
		test(w)
		if w.stop != nil {
			w.stop()
		}
	})
}

// noticed is the time within which the copy of the cloud has a change of the cloud.
const noticed = 15 * time.Second

func TestATombstoneActsAtOnce(t *testing.T) {
	bubble(t, 3, func(w *world) {
		var order []string
		w.api.PrependReactor("*", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if action.GetVerb() == "patch" || action.GetVerb() == "delete" {
				order = append(order, action.GetVerb()+" "+action.GetSubresource())
			}
			return false, nil, nil
		})
		w.start()
		if w.calls() != 0 {
			w.t.Error("the cloud was asked about Nodes whose machines exist")
		}
		w.deleteInstance(1)
		w.pass(noticed)
		if w.exists(name(1)) || w.left() != 2 {
			w.t.Errorf("%d Nodes left, that of the deleted machine: %v", w.left(), w.exists(name(1)))
		}
		if want := []string{"patch status", "delete "}; !slices.Equal(order, want) || w.seen()["DeletingNode"] != 1 {
			w.t.Errorf("order %q, want %q", order, want)
		}
	})
}

// In an hour, Nodes that are not ready cost no request, because their machines are known to exist.
func TestNodesThatAreNotReadyCostNothing(t *testing.T) {
	bubble(t, 50, func(w *world) {
		w.start()
		w.cloud.Calls()
		w.pass(time.Hour)
		if n := w.calls(); n != 0 {
			w.t.Errorf("%d requests about single instances in an hour", n)
		}
		if w.left() != 50 {
			w.t.Errorf("%d Nodes left", w.left())
		}
	})
}

func TestWithoutTombstoneTheCloudMustSayItRepeatedly(t *testing.T) {
	bubble(t, 2, func(w *world) {
		w.unknown(0)
		w.start()
		w.pass(50 * time.Second)
		if !w.exists(name(0)) {
			w.t.Error("gone after less than a minute")
		}
		w.pass(20 * time.Second)
		if w.exists(name(0)) || !w.exists(name(1)) {
			w.t.Errorf("after 70 s: %v, other %v", w.exists(name(0)), w.exists(name(1)))
		}
		if n := w.calls(); n != 3 {
			w.t.Errorf("%d requests, want 3", n)
		}
	})
}

// A contradiction makes the answers before it worthless.
func TestTheAnswersMustAgree(t *testing.T) {
	bubble(t, 1, func(w *world) {
		id := w.unknown(0)
		asked := 0
		w.lie(func(rw http.ResponseWriter, _ *http.Request) bool {
			asked++
			if asked%3 != 0 {
				return false
			}
			rw.Header().Set("Content-Type", "application/json")
			_, _ = rw.Write([]byte(`{"id":"` + id + `","revision":"1","hostname":"n-0","state":"running","addresses":[]}`))
			return true
		})
		w.start()
		w.pass(time.Hour)
		if !w.exists(name(0)) || asked < 3 {
			w.t.Errorf("exists %v after %d answers", w.exists(name(0)), asked)
		}
	})
}

func TestNewNodesHaveGrace(t *testing.T) {
	bubble(t, 40, func(w *world) {
		for i := range 2 {
			w.update(name(i), func(n *corev1.Node) { n.CreationTimestamp = metav1.Now() })
		}
		node := w.node(0)
		w.unknown(0)
		w.update(name(0), func(n *corev1.Node) { n.CreationTimestamp = metav1.Now(); n.UID = node.UID })
		w.start()
		w.deleteInstance(1)
		w.pass(9 * time.Minute)
		if !w.exists(name(0)) || w.calls() > 1 {
			w.t.Error("a new Node was deleted, or asked about")
		}
		if w.exists(name(1)) {
			w.t.Error("a new Node with a tombstone is still there")
		}
		w.pass(5 * time.Minute) // two of forty may be deleted within the window
		if w.exists(name(0)) {
			w.t.Error("still there after the grace")
		}
	})
}

// While the answer about a Node is on its way, its machine is replaced and registers under the same name.
func TestARebuiltMachineKeepsItsNewNode(t *testing.T) {
	bubble(t, 1, func(w *world) {
		replaced := false
		w.lie(func(http.ResponseWriter, *http.Request) bool {
			if !replaced {
				replaced = true
				node := w.node(0)
				w.must(w.api.CoreV1().Nodes().Delete(w.t.Context(), node.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &node.UID}}))
				node.UID, node.Spec.ProviderID, node.CreationTimestamp = "new", "mycloud://i-node-1", metav1.Now()
				w.create(node)
			}
			return false
		})
		w.start()
		w.deleteInstance(0)
		w.pass(time.Hour)
		if node, err := w.api.CoreV1().Nodes().Get(w.t.Context(), name(0), metav1.GetOptions{}); err != nil || node.UID != types.UID("new") || !replaced {
			w.t.Errorf("node %v, %v", node, err)
		}
	})
}

// Whatever the answers of a faulty cloud or a proxy, or to a wrong token, no Node goes.
func TestAFaultyCloudCostsNoNode(t *testing.T) {
	list := func(body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			return r.URL.Path == "/v1/instances" && cloud.Answer(200, "application/json", body)(w, r)
		}
	}
	faults := map[string]func(http.ResponseWriter, *http.Request) bool{
		"404 in HTML":     cloud.Answer(404, "text/html", "<html>"),
		"404 of a proxy":  cloud.Answer(404, "application/json", `{"status":404}`),
		"200 in HTML":     cloud.Answer(200, "text/html", "<html>"),
		"200, empty":      cloud.Answer(200, "application/json", ""),
		"200, {}":         cloud.Answer(200, "application/json", "{}"),
		"200, cut short":  cloud.Answer(200, "application/json", `{"id":"i-node-1","sta`),
		"redirect":        cloud.Answer(302, "text/html", ""),
		"reset":           func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
		"timeout":         func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true },
		"empty list":      list(`{"items":[],"revision":"1000000"}`),
		"list of nothing": list(`{"items":[],"revision":"1"}`),
		"degraded, and it forgets everything": func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/v1/meta" {
				return cloud.Answer(200, "application/json", `{"api_version":"1.0.0","status":"degraded","capabilities":[],"revision":"1","limits":{},"server_time":"2000-01-01T00:00:00Z"}`)(w, r)
			}
			if strings.HasPrefix(r.URL.Path, "/v1/instances/") {
				return cloud.Refuse(404, cloudv1.CodeResourceNotFound)(w, r)
			}
			return list(`{"items":[],"revision":"1000000"}`)(w, r)
		},
	}
	for status, code := range map[int]string{
		401: cloudv1.CodeUnauthenticated, 403: cloudv1.CodeForbidden, 408: cloudv1.CodeUnavailable, 409: cloudv1.CodeConflict, 412: cloudv1.CodeStaleRevision,
		425: cloudv1.CodeUnavailable, 429: cloudv1.CodeRateLimited, 500: cloudv1.CodeInternal, 503: cloudv1.CodeUnavailable,
	} {
		faults[http.StatusText(status)] = cloud.Refuse(status, code)
	}
	for title, fault := range faults {
		t.Run(title, func(t *testing.T) {
			bubble(t, 3, func(w *world) {
				w.unknown(0) // the copy of the cloud does not have it, so the cloud itself must be asked
				w.start()
				w.cloud.Intercept(fault)
				w.stop()
				w.start() // a new leader begins with an empty copy
				w.pass(2 * time.Hour)
				if strings.Contains(title, "list") {
					// The cloud itself still answers, about the unknown one as well.
					if !w.exists(name(1)) || !w.exists(name(2)) {
						t.Errorf("%d Nodes left", w.left())
					}
				} else if w.left() != 3 {
					t.Errorf("%d Nodes left", w.left())
				}
				w.cloud.Intercept(nil)
			})
		})
	}
}

func TestOnlyFivePercentGo(t *testing.T) {
	bubble(t, 200, func(w *world) {
		w.start()
		for i := range 30 {
			w.deleteInstance(i)
		}
		w.pass(time.Minute)
		if w.left() != 190 || w.seen()["DeletionHeld"] != 20 {
			w.t.Fatalf("%d Nodes left after a minute", w.left())
		}
		if n := w.calls(); n > 30 {
			w.t.Errorf("%d requests about Nodes that have to wait", n)
		}
		if !w.engaged() {
			w.t.Error("the brake is not engaged")
		}
		w.stop()
		w.start() // another leader
		w.pass(5 * time.Minute)
		if w.left() != 190 {
			w.t.Errorf("%d Nodes left: a restart grants a second budget", w.left())
		}
		w.pass(4 * time.Hour)
		if w.left() != 190 || !w.engaged() {
			w.t.Errorf("%d Nodes left after four hours, engaged %v", w.left(), w.engaged())
		}
		w.resume(brakes.NodeDeletions)
		w.pass(time.Minute)
		if w.left() != 170 {
			w.t.Errorf("%d Nodes left after an operator has resumed the work", w.left())
		}
		w.pass(2 * time.Hour)
		if w.left() != 170 || w.engaged() {
			w.t.Errorf("%d Nodes left in the end, engaged %v", w.left(), w.engaged())
		}
	})
}

func TestApprovalIsEnough(t *testing.T) {
	bubble(t, 5, func(w *world) {
		approve := func(i int) {
			w.update(name(i), func(n *corev1.Node) { n.Annotations = map[string]string{nodelifecycle.AnnotationAllowDeletion: "true"} })
		}
		w.unknown(1) // the tombstone has expired
		w.update(name(2), func(n *corev1.Node) { n.Spec.ProviderID = "" })
		w.start()
		w.deleteInstance(0) // uses the budget
		w.deleteInstance(2)
		w.deleteInstance(3)
		w.pass(2 * time.Minute)
		if w.left() != 4 {
			w.t.Fatalf("%d Nodes left, want 4", w.left())
		}
		for i := range 5 {
			if w.exists(name(i)) {
				approve(i)
			}
		}
		w.pass(5 * time.Second)
		if w.left() != 1 || !w.exists(name(4)) {
			w.t.Errorf("%d Nodes left; the one whose machine exists: %v", w.left(), w.exists(name(4)))
		}
	})
}

func TestHeldNodesAreAskedAboutEverLessOften(t *testing.T) {
	bubble(t, 1, func(w *world) {
		w.unknown(0)
		down := true
		w.lie(func(rw http.ResponseWriter, _ *http.Request) bool {
			if down {
				cloud.Problem(rw, http.StatusServiceUnavailable, cloudv1.CodeUnavailable)
			}
			return down
		})
		w.start()
		w.pass(time.Hour)
		if n := w.calls(); n > 12 {
			w.t.Errorf("%d requests in an hour", n)
		}
		// Changes of the Node by others, such as status updates, are no reason to ask more often.
		for range 60 {
			w.update(name(0), func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() })
			w.pass(time.Second)
		}
		if n := w.calls(); n > 1 {
			w.t.Errorf("%d requests because the Node changes", n)
		}
	})
}

func TestForeignNodesAreLeftAlone(t *testing.T) {
	bubble(t, 1, func(w *world) {
		w.update(name(0), func(n *corev1.Node) {
			n.Spec.ProviderID = "aws:///eu/i-1"
			n.Annotations = map[string]string{nodelifecycle.AnnotationAllowDeletion: "true"}
		})
		w.deleteInstance(0)
		w.start()
		w.pass(time.Hour)
		if !w.exists(name(0)) || w.calls() > 1 || len(w.seen()) != 0 {
			w.t.Error("a Node of another cloud was touched")
		}
	})
}

func TestTheTaintFollowsTheMachine(t *testing.T) {
	bubble(t, 1, func(w *world) {
		tainted := func() bool {
			n, err := w.api.CoreV1().Nodes().Get(w.t.Context(), name(0), metav1.GetOptions{})
			w.must(err)
			return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
				return t.Key == cloudproviderapi.TaintNodeShutdown && t.Effect == corev1.TaintEffectNoSchedule
			})
		}
		w.start()
		_, err := w.cloud.Client.StopInstance(w.t.Context(), w.ids[0], cloudapi.WriteOptions{})
		w.must(err)
		w.pass(noticed)
		if !tainted() {
			w.t.Error("no taint although the machine is stopped")
		}
		_, err = w.cloud.Client.StartInstance(w.t.Context(), w.ids[0], cloudapi.WriteOptions{})
		w.must(err)
		w.update(name(0), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
		w.pass(2 * time.Second)
		if tainted() {
			w.t.Error("tainted although the Node is ready")
		}
	})
}

// A Node that others are deleting, and that a finalizer keeps, is left to them.
func TestANodeThatIsBeingDeletedIsLeftAlone(t *testing.T) {
	bubble(t, 1, func(w *world) {
		w.update(name(0), func(n *corev1.Node) {
			n.DeletionTimestamp, n.Finalizers = new(metav1.Now()), []string{"example.com/wait"}
		})
		w.start()
		w.deleteInstance(0)
		w.pass(time.Minute)
		if n := w.calls(); n > 0 || len(w.seen()) > 0 {
			w.t.Errorf("%d requests", n)
		}
	})
}

// A ready Node whose machine was deleted is kept, and one Event says why.
func TestAReadyNodeOfADeletedMachine(t *testing.T) {
	bubble(t, 2, func(w *world) {
		set := func(status corev1.ConditionStatus) {
			w.update(name(0), func(n *corev1.Node) { n.Status.Conditions[0].Status = status })
		}
		set(corev1.ConditionTrue)
		w.start()
		w.deleteInstance(0)
		w.pass(noticed)
		if seen := w.seen(); !w.exists(name(0)) || seen["DeletionHeld"] != 1 {
			w.t.Errorf("the Node exists: %v; Events: %v", w.exists(name(0)), seen)
		}
		w.update(name(0), func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} })
		w.pass(time.Hour)
		if seen := w.seen(); !w.exists(name(0)) || len(seen) != 0 {
			w.t.Errorf("after an hour: the Node exists: %v; Events: %v", w.exists(name(0)), seen)
		}
		want := `# HELP quaymaster_node_deletions_held Nodes that are kept although the cloud reports no machine for them, by reason.
# TYPE quaymaster_node_deletions_held gauge
quaymaster_node_deletions_held{reason="still-ready"} 1
quaymaster_node_deletions_held{reason="too-many"} 0
quaymaster_node_deletions_held{reason="unknown-hostname"} 0
quaymaster_node_deletions_held{reason="unknown-instance"} 0
`
		err := testutil.CollectAndCompare(w.controller, strings.NewReader(want), "quaymaster_node_deletions_held")
		if err != nil {
			w.t.Error(err)
		}
		set(corev1.ConditionUnknown)
		w.pass(noticed)
		if w.exists(name(0)) {
			w.t.Error("the Node is kept although it is not ready any more")
		}
	})
}

// A deletion that fails is repeated without another unit of the budget.
func TestAFailedDeletionIsRepeated(t *testing.T) {
	bubble(t, 1, func(w *world) {
		failures := 8
		w.api.PrependReactor("delete", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			failures--
			return failures >= 0, nil, errors.New("etcd is away")
		})
		w.start()
		w.deleteInstance(0)
		w.pass(noticed)
		if n := w.seen()["DeletingNodeFailed"]; n == 0 || n > 5 {
			w.t.Errorf("%d attempts", n)
		}
		w.pass(5 * time.Minute)
		if w.exists(name(0)) {
			w.t.Error("still there")
		}
	})
}
