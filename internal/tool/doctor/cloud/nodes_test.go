package cloud

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/provider/providerid"
	"quaymaster.dev/test/harness/installation"
)

func TestNodes(t *testing.T) {
	node := func(name, id string, age time.Duration, taints ...string) *corev1.Node {
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(installation.Noon.Add(-age))},
			Spec:       corev1.NodeSpec{ProviderID: id},
		}
		for _, key := range taints {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key})
		}
		return n
	}
	const taint = "node.cloudprovider.kubernetes.io/uninitialized"
	const foreign = `provider ID "aws:///x": must begin with mycloud://: the machine belongs to another cloud`
	unready := func(n *corev1.Node, message string) *corev1.Node {
		n.UID = types.UID(n.Name)
		n.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Message: message,
			LastTransitionTime: metav1.NewTime(installation.Noon.Add(-5 * time.Minute)),
		}}
		return n
	}
	good := node("a", "mycloud://i-1", time.Hour, "node-role.kubernetes.io/control-plane")
	for name, tc := range map[string]struct {
		nodes []runtime.Object
		want  doctor.Result
	}{
		"initialized": {[]runtime.Object{good}, doctor.Result{Level: doctor.OK, Found: "the only Node is initialized"}},
		"new":         {[]runtime.Object{good, node("b", "", 30*time.Second, taint)}, doctor.Result{Level: doctor.OK, Found: "all 2 Nodes are initialized"}},
		"uninitialized": {
			[]runtime.Object{
				good, node("b", "", time.Hour, taint), node("c", "mycloud://i-3", 2*time.Minute, taint),
				node("d", "aws:///x", time.Hour, taint), node("e", "aws:///x", time.Hour),
			},
			doctor.Result{
				Level: doctor.Fail, Found: "3 of 5 Nodes have the taint " + taint + ", so ordinary pods cannot run there",
				Details: []string{
					"b since 1h0m0s: it has no provider ID", "c since 2m0s: its provider ID is mycloud://i-3", "d since 1h0m0s: " + foreign,
					"e: " + foreign,
				},
				Remedy: remedyUninitialized,
			},
		},
		"not running": {
			[]runtime.Object{
				good, unready(node("b", "mycloud://i-2", time.Hour), "Kubelet stopped posting node status."),
				unready(node("c", "mycloud://i-3", time.Hour, "node.cloudprovider.kubernetes.io/shutdown"), "Kubelet stopped."),
				unready(node("d", "mycloud://i-4", time.Hour), "Kubelet stopped."),
				&corev1.Event{
					ObjectMeta: metav1.ObjectMeta{Name: "d.1", Namespace: "default"}, Reason: "DeletionHeld", Message: "The node is kept.",
					InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "d", UID: "d"},
				},
			},
			doctor.Result{
				Level: doctor.Warn, Found: "3 of 4 Nodes are initialized but do not run",
				Details: []string{
					"b: not ready for 5m0s: Kubelet stopped posting node status.", "c: not ready for 5m0s: its instance is stopped",
					"d: not ready for 5m0s: The node is kept.",
				},
				Remedy: remedyDown,
			},
		},
		"not of the cloud": {
			[]runtime.Object{good, node("b", "", time.Hour), node("c", "aws:///x", time.Hour)},
			doctor.Result{
				Level: doctor.Warn, Found: "2 of 3 Nodes have no machine in the cloud, so load balancers do not use them",
				Details: []string{"b: it has no provider ID", "c: " + foreign}, Remedy: remedyUnknown,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := checks(fake.NewClientset(tc.nodes...))
			c.InstanceID, c.Config = providerid.Parse, &config.Config{}
			if diff := cmp.Diff(tc.want, c.Nodes(t.Context()), cmpopts.IgnoreUnexported(doctor.Result{})); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}
