package node_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	cloudproviderapi "k8s.io/cloud-provider/api"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/node"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/machines"
	"quaymaster.dev/provider/mirror"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/providerid"
	"quaymaster.dev/test/harness/cloud"
)

// noticed is the time within which the copy of the cloud has a change of the cloud.
const noticed = 15 * time.Second

// world is a cloud and a cluster, in virtual time.
type world struct {
	t      *testing.T
	cloud  *cloud.Cloud
	api    *fake.Clientset
	events *record.FakeRecorder
}

// bubble runs a test in virtual time, with a running controller.
func bubble(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, cloud: cloud.StartDirect(t), events: record.NewFakeRecorder(10000)}
		w.api = fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "cluster"}})
		m := mirror.New(mirror.Options{Cloud: w.cloud.Client, Cluster: ownership.NewCluster(w.api.CoreV1())})
		factory := informers.NewSharedInformerFactory(w.api, 0)
		c, err := node.New(node.Options{
			Nodes: factory.Core().V1().Nodes(), Client: func() kubernetes.Interface { return w.api },
			Recorder: func(context.Context, kubernetes.Interface) record.EventRecorder { return w.events },
			Machines: machines.New(w.cloud.Client, m), Workers: 8, Period: 5 * time.Minute,
		})
		w.must(err)
		ctx, cancel := context.WithCancel(t.Context())
		factory.StartWithContext(ctx)
		var running sync.WaitGroup
		running.Go(func() { m.Run(ctx) })
		running.Go(func() { c.Run(ctx) })
		w.pass(time.Second)
		test(w)
		cancel()
		running.Wait()
		factory.Shutdown()
	})
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// instance creates an instance with addresses of both families.
func (w *world) instance(hostname string) *cloudv1.Instance {
	w.t.Helper()
	instance, err := w.cloud.Client.CreateInstance(w.t.Context(), cloudv1.InstanceSpec{
		Hostname: hostname, Type: "m1.large", Zone: "eu-1b", Addresses: []cloudv1.InstanceAddress{
			{Type: cloudv1.AddressInternal, Family: cloudv1.FamilyIPv4, Address: "10.9.0.1"},
			{Type: cloudv1.AddressInternal, Family: cloudv1.FamilyIPv6, Address: "fd00::1"},
			{Type: cloudv1.AddressExternal, Family: cloudv1.FamilyIPv4, Address: "198.51.100.1"},
		},
	}, cloudapi.WriteOptions{IdempotencyKey: hostname})
	w.must(err)
	return instance
}

// register creates a Node as its kubelet does.
func (w *world) register(name string, change func(*corev1.Node)) {
	w.t.Helper()
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Now(), Labels: map[string]string{"role": "edge"}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: "keep", Effect: corev1.TaintEffectNoSchedule},
			{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule},
		}},
	}
	if change != nil {
		change(n)
	}
	_, err := w.api.CoreV1().Nodes().Create(w.t.Context(), n, metav1.CreateOptions{})
	w.must(err)
}

func (w *world) node(name string) *corev1.Node {
	w.t.Helper()
	n, err := w.api.CoreV1().Nodes().Get(w.t.Context(), name, metav1.GetOptions{})
	w.must(err)
	return n
}

func initialized(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == cloudproviderapi.TaintExternalCloudProvider {
			return false
		}
	}
	return true
}

// writes returns the writes of Nodes since the last call.
func (w *world) writes() []string {
	var writes []string
	for _, a := range w.api.Actions() {
		if verb := a.GetVerb(); a.GetResource().Resource == "nodes" && (verb == "update" || verb == "patch") {
			writes = append(writes, strings.TrimSpace(verb+" "+a.GetSubresource()))
		}
	}
	w.api.ClearActions()
	return writes
}

func TestANodeIsInitialized(t *testing.T) {
	bubble(t, func(w *world) {
		instance := w.instance("a")
		w.pass(noticed)
		w.register("a", nil)
		w.pass(time.Second)
		n := w.node("a")
		labels := map[string]string{
			"role":                            "edge",
			corev1.LabelInstanceType:          "m1.large",
			corev1.LabelInstanceTypeStable:    "m1.large",
			corev1.LabelFailureDomainBetaZone: "eu-1b", corev1.LabelTopologyZone: "eu-1b",
			corev1.LabelFailureDomainBetaRegion: "eu-1", corev1.LabelTopologyRegion: "eu-1",
		}
		addresses := []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "10.9.0.1"}, {Type: corev1.NodeInternalIP, Address: "fd00::1"},
			{Type: corev1.NodeExternalIP, Address: "198.51.100.1"}, {Type: corev1.NodeHostName, Address: "a"},
		}
		taints := []corev1.Taint{{Key: "keep", Effect: corev1.TaintEffectNoSchedule}}
		if n.Spec.ProviderID != providerid.Format(instance.ID) {
			t.Errorf("provider ID %q", n.Spec.ProviderID)
		}
		for _, diff := range []string{cmp.Diff(labels, n.Labels), cmp.Diff(addresses, n.Status.Addresses), cmp.Diff(taints, n.Spec.Taints)} {
			if diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		if event := <-w.events.Events; event != "Normal Synced Node synced successfully" {
			t.Errorf("event %q", event)
		}
		if diff := cmp.Diff([]string{"update", "patch status"}, w.writes()); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		// A Node with addresses of two families is not written again.
		w.pass(time.Hour)
		if writes := w.writes(); len(writes) != 0 {
			t.Errorf("writes of a Node that has not changed: %q", writes)
		}
	})
}

func TestManyNodesJoin(t *testing.T) {
	const nodes = 200
	bubble(t, func(w *world) {
		for i := range nodes {
			w.instance(fmt.Sprintf("n-%d", i))
		}
		w.pass(noticed)
		w.cloud.Calls()
		for i := range nodes {
			w.register(fmt.Sprintf("n-%d", i), nil)
		}
		w.pass(3 * time.Second)
		for i := range nodes {
			if n := w.node(fmt.Sprintf("n-%d", i)); !initialized(n) {
				t.Fatalf("%s is not initialized", n.Name)
			}
		}
		if calls := w.cloud.Calls(); len(calls) > 5 {
			t.Errorf("%d requests: %q", len(calls), calls[:5])
		}
	})
}

// A Node may register before the cloud reports its machine, and while the cloud does not answer.
func TestANodeWaitsForItsMachine(t *testing.T) {
	bubble(t, func(w *world) {
		w.cloud.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPost {
				return false
			}
			cloud.Problem(rw, http.StatusServiceUnavailable, cloudv1.CodeUnavailable)
			return true
		})
		w.register("a", nil)
		w.pass(time.Minute)
		w.instance("a")
		w.pass(time.Minute)
		if initialized(w.node("a")) {
			t.Fatal("initialized without the cloud")
		}
		w.cloud.Intercept(nil)
		w.pass(time.Minute)
		if !initialized(w.node("a")) {
			t.Error("not initialized after the cloud is back")
		}
	})
}

func TestTheKubeletChoosesTheAddress(t *testing.T) {
	bubble(t, func(w *world) {
		w.instance("a")
		w.instance("b")
		w.pass(noticed)
		provided := func(ip string) func(*corev1.Node) {
			return func(n *corev1.Node) {
				n.Annotations = map[string]string{cloudproviderapi.AnnotationAlphaProvidedIPAddr: ip}
			}
		}
		w.register("a", provided("fd00::1"))
		w.register("b", provided("192.0.2.1"))
		w.pass(time.Minute)
		want := []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "fd00::1"}, {Type: corev1.NodeExternalIP, Address: "198.51.100.1"},
			{Type: corev1.NodeHostName, Address: "a"},
		}
		if diff := cmp.Diff(want, w.node("a").Status.Addresses); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if initialized(w.node("b")) {
			t.Error("initialized although the machine does not have the provided address")
		}
	})
}

func TestLabelsAreWrittenOnceAndRepaired(t *testing.T) {
	bubble(t, func(w *world) {
		w.instance("a")
		w.pass(noticed)
		w.register("a", nil)
		w.pass(time.Second)
		n := w.node("a")
		delete(n.Labels, corev1.LabelTopologyZone)
		n.Labels[corev1.LabelInstanceType] = "custom"
		_, err := w.api.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{})
		w.must(err)
		w.pass(time.Second)
		n = w.node("a")
		if n.Labels[corev1.LabelTopologyZone] != "eu-1b" || n.Labels[corev1.LabelInstanceTypeStable] != "custom" || n.Labels[corev1.LabelInstanceType] != "custom" {
			t.Errorf("labels %v", n.Labels)
		}
	})
}

func TestForeignNodesAreLeftAlone(t *testing.T) {
	bubble(t, func(w *world) {
		w.instance("a")
		w.pass(noticed)
		w.register("a", func(n *corev1.Node) { n.Spec.ProviderID = "aws:///eu/i-1" })
		w.pass(time.Hour)
		if writes := w.writes(); len(writes) != 0 || initialized(w.node("a")) {
			t.Errorf("writes of a Node of another cloud: %q", writes)
		}
	})
}

// lagging makes the copy of the cloud miss every change from now on.
func (w *world) lagging() {
	w.cloud.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			return false // lookups are asked of the cloud itself
		}
		cloud.Problem(rw, http.StatusServiceUnavailable, cloudv1.CodeUnavailable)
		return true
	})
}

// A machine is deleted and built again under the same name, which the copy of the cloud does not know yet. The provider
// ID of a Node never changes, so it must be that of the new machine.
func TestAStaleCopyInitializesNoNode(t *testing.T) {
	bubble(t, func(w *world) {
		former := w.instance("a")
		w.pass(noticed)
		w.lagging()
		w.pass(time.Minute) // a request for changes may be under way
		_, err := w.cloud.Client.DeleteInstance(w.t.Context(), former.ID, cloudapi.WriteOptions{})
		w.must(err)
		w.register("a", nil)
		w.pass(time.Minute)
		if n := w.node("a"); initialized(n) || n.Spec.ProviderID != "" {
			t.Fatalf("initialized with %s, which is deleted", n.Spec.ProviderID)
		}
		latter, err := w.cloud.Client.CreateInstance(w.t.Context(), cloudv1.InstanceSpec{
			Hostname: "a", Type: "m1.large", Zone: "eu-1b",
		}, cloudapi.WriteOptions{IdempotencyKey: "again"})
		w.must(err)
		w.pass(time.Minute)
		if n := w.node("a"); n.Spec.ProviderID != providerid.Format(latter.ID) {
			t.Errorf("provider ID %q, want that of the new machine", n.Spec.ProviderID)
		}
	})
}

// A kubelet cannot take over the addresses of another machine with --provider-id.
func TestAKubeletClaimsAnotherMachine(t *testing.T) {
	bubble(t, func(w *world) {
		victim := w.instance("victim")
		w.pass(noticed)
		w.register("victim", nil)
		w.pass(time.Minute)
		claim := func(n *corev1.Node) { n.Spec.ProviderID = providerid.Format(victim.ID) }
		w.register("thief", claim)
		w.register("early", func(n *corev1.Node) { claim(n); n.Spec.Taints = nil })
		w.pass(10 * time.Minute)
		if n := w.node("thief"); initialized(n) || len(n.Status.Addresses) > 0 {
			t.Errorf("initialized %t with the addresses %v of another machine", initialized(n), n.Status.Addresses)
		}
		if n := w.node("early"); len(n.Status.Addresses) > 0 {
			t.Errorf("addresses %v of another machine", n.Status.Addresses)
		}
		if n := w.node("victim"); len(n.Status.Addresses) == 0 {
			t.Error("the Node of the machine has lost its addresses")
		}
		<-w.events.Events // of the victim
		if event := <-w.events.Events; !strings.Contains(event, "InstanceMismatch") || !strings.Contains(event, `hostname "victim"`) {
			t.Errorf("event %q", event)
		}
	})
}
