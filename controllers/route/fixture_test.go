package route_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/brake"
	"quaymaster.dev/controllers/route"
	"quaymaster.dev/internal/kube/brakes"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/mirror"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/routetable"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/env"
)

const (
	tableID    = "rt-main"
	clusterUID = "c1a5e000-0000-4000-8000-000000000001"
	other      = "another-cluster"
	writePath  = "POST /v1/route-tables/rt-main/routes:batch"
	listPath   = "GET /v1/route-tables/rt-main/routes"
)

// fixture is a Controller between a cluster and the reference cloud.
type fixture struct {
	*route.Controller

	t      *testing.T
	cloud  *cloud.Cloud
	client *fake.Clientset
	clock  *clocktesting.FakeClock
	book   *brake.Book
}

// setUp creates a cluster with the Nodes, and a cloud.
func setUp(t *testing.T, nodes ...*corev1.Node) *fixture {
	t.Helper()
	f := &fixture{t: t, cloud: cloud.Start(t, 0), clock: clocktesting.NewFakeClock(time.Now())}
	f.client = fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: clusterUID}})
	for _, n := range nodes {
		f.put(n)
	}
	f.book = brake.New(brake.Options{
		Client: f.client, Namespace: metav1.NamespaceSystem, Recorder: record.NewFakeRecorder(100), Clock: f.clock,
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.book.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	f.untilReleased() // once the record has been read
	return f
}

// start creates a Controller without the state of a previous one; the test makes its passes.
func (f *fixture) start() {
	f.t.Helper()
	f.create(f.clock)
	f.t.Cleanup(f.Connect(f.t.Context()))
	f.cloud.Calls()
	f.client.ClearActions()
}

func (f *fixture) create(clock clock.WithTicker) {
	f.t.Helper()
	factory := informers.NewSharedInformerFactory(f.client, 0)
	cluster := ownership.NewCluster(f.client.CoreV1())
	unused := mirror.New(mirror.Options{Cloud: f.cloud.Client, Cluster: cluster})
	var err error
	f.Controller, err = route.New(route.Options{
		Table: routetable.New(f.cloud.Client, unused.Routes, cluster, tableID),
		Nodes: factory.Core().V1().Nodes(), Client: func() kubernetes.Interface { return f.client },
		InstanceOf:   routetable.InstanceOf,
		ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/48")},
		Brake:        f.book, Clock: clock,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	factory.StartWithContext(f.t.Context())
	cache.WaitForCacheSync(f.t.Context().Done(), f.Synced)
}

// pass reconciles once and writes the conditions.
func (f *fixture) pass(checkDrift bool) {
	f.t.Helper()
	if _, err := f.Pass(f.t.Context(), checkDrift); err != nil {
		f.t.Errorf("pass: %v", err)
	}
	f.WriteConditions(f.t.Context())
}

// settle makes passes until the check succeeds: the informer follows the cluster with a delay.
func (f *fixture) settle(what string, check func() error) {
	f.t.Helper()
	env.Eventually(f.t, 10*time.Second, what, func(context.Context) error {
		f.pass(false)
		return check()
	})
}

// node returns a Node whose routes were confirmed before, if confirmed.
func node(name, providerID string, podCIDRs ...string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.NodeSpec{ProviderID: providerID, PodCIDRs: podCIDRs},
	}
}

// confirmed adds the condition that the Node's routes exist.
func confirmed(n *corev1.Node) *corev1.Node {
	n.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: "RouteCreated",
	}}
	return n
}

// fleet returns Nodes on the instances of the cloud, and their routes.
func fleet(n int) (nodes []*corev1.Node, routes map[string]string) {
	routes = map[string]string{}
	for i := range n {
		instance := fmt.Sprintf("i-node-%d", i%4+1)
		cidr := fmt.Sprintf("10.244.%d.%d/28", i/16, i%16*16)
		nodes = append(nodes, node(fmt.Sprintf("n%d", i), "mycloud://"+instance, cidr))
		routes[cidr] = instance
	}
	return nodes, routes
}

func (f *fixture) put(n *corev1.Node) {
	f.t.Helper()
	if err := f.client.Tracker().Add(n); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) deleteNode(name string) {
	f.t.Helper()
	if err := f.client.CoreV1().Nodes().Delete(f.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

// update changes a Node.
func (f *fixture) update(name string, change func(*corev1.Node)) {
	f.t.Helper()
	n, err := f.client.CoreV1().Nodes().Get(f.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	change(n)
	if _, err := f.client.CoreV1().Nodes().Update(f.t.Context(), n, metav1.UpdateOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

// putRoutes writes routes of a cluster, as destination and instance.
func (f *fixture) putRoutes(cluster string, routes map[string]string) {
	f.t.Helper()
	var batch cloudv1.RoutesBatch
	flush := func() {
		result, err := f.cloud.Client.BatchRoutes(f.t.Context(), tableID, batch, cloudapi.WriteOptions{})
		if err != nil || len(result.Results) > 0 && result.Results[0].Error != nil {
			f.t.Fatal(err, result)
		}
		batch = cloudv1.RoutesBatch{}
	}
	for destination, instance := range routes {
		batch.Upsert = append(batch.Upsert, cloudv1.RouteSpec{
			Destination: destination, NextHop: cloudv1.NextHop{InstanceID: instance},
			Tags: map[string]string{ownership.ClusterUID: cluster},
		})
		if len(batch.Upsert) == 500 {
			flush()
		}
	}
	flush()
	f.cloud.Calls()
}

// routes returns the routes of a cluster in the cloud, as destination and instance.
func (f *fixture) routes(cluster string) map[string]string {
	f.t.Helper()
	list, err := f.cloud.Client.ListRoutes(f.t.Context(), tableID,
		cloudapi.ListOptions{Tags: map[string]string{ownership.ClusterUID: cluster}})
	if err != nil {
		f.t.Fatal(err)
	}
	all := map[string]string{}
	for _, r := range list.Items {
		all[r.Destination] = r.NextHop.InstanceID
	}
	return all
}

// expectRoutes compares the cluster's routes in the cloud.
func (f *fixture) expectRoutes(want map[string]string) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.routes(clusterUID)); diff != "" {
		f.t.Errorf("unexpected routes (-want +got):\n%s", diff)
	}
}

// condition returns the status and the reason of a Node's condition.
func (f *fixture) condition(name string) string {
	f.t.Helper()
	n, err := f.client.CoreV1().Nodes().Get(f.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

func (f *fixture) expectCondition(name, want string) {
	f.t.Helper()
	if got := f.condition(name); got != want {
		f.t.Errorf("condition of %s %q, want %q", name, got, want)
	}
}

// patches returns the number of writes of Nodes.
func (f *fixture) patches() int {
	count := 0
	for _, action := range f.client.Actions() {
		if action.GetResource().Resource == "nodes" && action.GetVerb() == "patch" {
			count++
		}
	}
	return count
}

// event waits for an Event about a Node.
func (f *fixture) event(name, text string) {
	f.t.Helper()
	env.Eventually(f.t, 10*time.Second, "event", func(ctx context.Context) error {
		events, err := f.client.CoreV1().Events("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.InvolvedObject.Name == name && strings.Contains(e.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("none about %s with %q among %d", name, text, len(events.Items))
	})
}

// failWrites makes the next n writes of routes fail.
func (f *fixture) failWrites(n int, respond func(http.ResponseWriter, *http.Request)) {
	var mu sync.Mutex
	f.cloud.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if r.Method != http.MethodPost || n == 0 {
			return false
		}
		n--
		respond(w, r)
		return true
	})
}

func unavailable(w http.ResponseWriter, _ *http.Request) {
	cloud.Problem(w, http.StatusServiceUnavailable, "unavailable")
}

// engaged reports whether the brake stops removals.
func (f *fixture) engaged() bool {
	_, _, engaged := f.book.Engaged(brakes.Routes)
	return engaged
}

// resume resumes removals, as an operator would, and waits until the controllers know it.
func (f *fixture) resume() {
	f.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, brakes.AnnotationResume(brakes.Routes),
		f.clock.Now().Add(time.Hour).Format(time.RFC3339))
	if _, err := f.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Patch(f.t.Context(), brakes.ConfigMap,
		types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		f.t.Fatal(err)
	}
	f.untilReleased()
}

func (f *fixture) untilReleased() {
	f.t.Helper()
	env.Eventually(f.t, 10*time.Second, "the release of the brake", func(context.Context) error {
		if message, _, engaged := f.book.Engaged(brakes.Routes); engaged {
			return errors.New(message)
		}
		return nil
	})
}

// has returns an error unless the cluster has a route.
func (f *fixture) has(destination string) error {
	if all := f.routes(clusterUID); all[destination] == "" {
		return fmt.Errorf("%d routes without %s", len(all), destination)
	}
	return nil
}

// says returns an error unless a Node has the condition.
func (f *fixture) says(name, want string) error {
	if got := f.condition(name); got != want {
		return fmt.Errorf("condition %q", got)
	}
	return nil
}

// gone returns an error as long as the controller knows the Node.
func (f *fixture) gone(name string) error {
	if f.Knows(name) {
		return errors.New("the controller knows it")
	}
	return nil
}
