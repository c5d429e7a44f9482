package nodelifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/brake"
	"quaymaster.dev/controllers/nodelifecycle"
	"quaymaster.dev/internal/kube/brakes"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/machines"
	"quaymaster.dev/provider/mirror"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/providerid"
	"quaymaster.dev/test/harness/cloud"
)

// world is a cloud and a cluster with Nodes that are not ready, in virtual time.
type world struct {
	t         *testing.T
	cloud     *cloud.Cloud
	api       *fake.Clientset
	informers informers.SharedInformerFactory
	events    *record.FakeRecorder
	ids       []string // the instances, by the number of the Node
	stop      func()
	// controller is the one that start has started last.
	controller *nodelifecycle.Controller
}

func newWorld(t *testing.T, nodes int) *world {
	t.Helper()
	w := &world{t: t, cloud: cloud.StartDirect(t), events: record.NewFakeRecorder(10000)}
	w.api = fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "cluster"}})
	w.preconditions()
	w.informers = informers.NewSharedInformerFactory(w.api, 0)
	for i := range nodes {
		instance, err := w.cloud.Client.CreateInstance(t.Context(), cloudv1.InstanceSpec{
			Hostname: name(i), Type: "m1.large", Zone: "eu-1b",
		}, cloudapi.WriteOptions{IdempotencyKey: name(i)})
		w.must(err)
		w.ids = append(w.ids, instance.ID)
		w.create(w.node(i))
	}
	w.cloud.Calls()
	return w
}

func name(i int) string { return fmt.Sprintf("n-%d", i) }

// node returns a Node that is an hour old and not ready.
func (w *world) node(i int) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name(i), UID: types.UID("uid-" + name(i)), CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour)),
		},
		Spec:   corev1.NodeSpec{ProviderID: providerid.Format(w.ids[i])},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}},
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) create(node *corev1.Node) {
	w.t.Helper()
	_, err := w.api.CoreV1().Nodes().Create(w.t.Context(), node, metav1.CreateOptions{})
	w.must(err)
}

func (w *world) update(name string, change func(*corev1.Node)) {
	w.t.Helper()
	node, err := w.api.CoreV1().Nodes().Get(w.t.Context(), name, metav1.GetOptions{})
	w.must(err)
	change(node)
	_, err = w.api.CoreV1().Nodes().Update(w.t.Context(), node, metav1.UpdateOptions{})
	w.must(err)
}

// preconditions makes the fake API server check UIDs, as the real one does.
func (w *world) preconditions() {
	check := func(name string, uid types.UID) error {
		found, err := w.api.Tracker().Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", name)
		if err != nil {
			return err
		}
		if node, ok := found.(*corev1.Node); ok && uid != "" && node.UID != uid {
			return apierrors.NewConflict(corev1.Resource("nodes"), name, errors.New("another UID"))
		}
		return nil
	}
	w.api.PrependReactor("*", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		switch a := action.(type) {
		case clienttesting.PatchActionImpl:
			var patch struct{ Metadata metav1.ObjectMeta }
			if err := json.Unmarshal(a.Patch, &patch); err != nil {
				return true, nil, err
			}
			err := check(a.Name, patch.Metadata.UID)
			return err != nil, nil, err
		case clienttesting.DeleteActionImpl:
			if a.DeleteOptions.Preconditions == nil || a.DeleteOptions.Preconditions.UID == nil {
				return true, nil, errors.New("a deletion without the UID of the node")
			}
			err := check(a.Name, *a.DeleteOptions.Preconditions.UID)
			return err != nil, nil, err
		}
		return false, nil, nil
	})
}

// start runs mirror, brakes and controller, as a leader does, until stop or the end of the test.
func (w *world) start() {
	w.t.Helper()
	m := mirror.New(mirror.Options{Cloud: w.cloud.Client, Cluster: ownership.NewCluster(w.api.CoreV1())})
	book := brake.New(brake.Options{Client: w.api, Namespace: metav1.NamespaceSystem, Recorder: w.events})
	factory := informers.NewSharedInformerFactory(w.api, 0)
	c, err := nodelifecycle.New(nodelifecycle.Options{
		Nodes: factory.Core().V1().Nodes(), Client: func() kubernetes.Interface { return w.api },
		Recorder: func(context.Context, kubernetes.Interface) record.EventRecorder { return w.events },
		Machines: machines.New(w.cloud.Client, m), Brakes: book,
	})
	w.must(err)
	w.controller = c
	ctx, cancel := context.WithCancel(w.t.Context())
	factory.StartWithContext(ctx)
	var running sync.WaitGroup
	for _, run := range []func(context.Context){m.Run, book.Run, c.Run} {
		running.Go(func() { run(ctx) })
	}
	w.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		factory.Shutdown()
	})
	w.t.Cleanup(w.stop)
	w.pass(time.Second)
}

// pass lets virtual time pass.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// left returns the number of Nodes.
func (w *world) left() int {
	w.t.Helper()
	nodes, err := w.api.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
	w.must(err)
	return len(nodes.Items)
}

func (w *world) exists(name string) bool {
	w.t.Helper()
	_, err := w.api.CoreV1().Nodes().Get(w.t.Context(), name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		w.must(err)
	}
	return err == nil
}

func (w *world) deleteInstance(i int) {
	w.t.Helper()
	_, err := w.cloud.Client.DeleteInstance(w.t.Context(), w.ids[i], cloudapi.WriteOptions{})
	w.must(err)
}

// unknown makes the cloud forget the instance of a Node without a tombstone: it then answers as about any unknown id.
func (w *world) unknown(i int) string {
	id := "i-forgotten-" + name(i)
	w.ids[i] = id
	node := w.node(i)
	w.must(w.api.CoreV1().Nodes().Delete(w.t.Context(), node.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &node.UID}}))
	w.create(node)
	return id
}

// calls counts the requests about single instances since the last call.
func (w *world) calls() int {
	count := 0
	for _, call := range w.cloud.Calls() {
		if strings.HasPrefix(call, "GET /v1/instances/") || call == "POST /v1/instances:lookup" {
			count++
		}
	}
	return count
}

// lie answers requests about single instances in place of the cloud.
func (w *world) lie(answer func(http.ResponseWriter, *http.Request) bool) {
	w.cloud.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		return strings.HasPrefix(r.URL.Path, "/v1/instances/") && r.Method == http.MethodGet && answer(rw, r)
	})
}

// seen returns the reasons of the Events so far, with their counts.
func (w *world) seen() map[string]int {
	seen := map[string]int{}
	for {
		select {
		case e := <-w.events.Events:
			seen[strings.Fields(e)[1]]++
		default:
			return seen
		}
	}
}

func (w *world) record() *corev1.ConfigMap {
	w.t.Helper()
	cm, err := w.api.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(w.t.Context(), brakes.ConfigMap, metav1.GetOptions{})
	w.must(err)
	return cm
}

// engaged reports whether the brake of Node deletions is engaged.
func (w *world) engaged() bool {
	w.t.Helper()
	b, err := brakes.Read(w.record(), brakes.NodeDeletions)
	w.must(err)
	return b.Engaged != nil
}

// resume resumes the work of a brake for an hour, as an operator does.
func (w *world) resume(name string) {
	w.t.Helper()
	cm := w.record()
	metav1.SetMetaDataAnnotation(&cm.ObjectMeta, brakes.AnnotationResume(name), time.Now().Add(time.Hour).Format(time.RFC3339))
	_, err := w.api.CoreV1().ConfigMaps(metav1.NamespaceSystem).Update(w.t.Context(), cm, metav1.UpdateOptions{})
	w.must(err)
}
