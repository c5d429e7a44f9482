package nodelifecycle_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	stock "k8s.io/cloud-provider/controllers/nodelifecycle"
	"k8s.io/component-base/metrics/prometheus/controllers"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/plain"
)

// TestFalseNotFound is the demonstration: of the requests about instances of 200 Nodes that are not ready, 5 % get the
// false answer for a minute that there is no such instance. The controller of k8s.io/cloud-provider, over a provider
// that passes the answers on, deletes dozens of Nodes; ours deletes none, but the Node of an instance that is really
// deleted within three minutes. Run it with go test -v.
func TestFalseNotFound(t *testing.T) {
	const nodes, faulty = 200, 60 * time.Second
	lost := map[string]int{}
	for who, start := range map[string]func(*world){"k8s.io/cloud-provider": startStock, "Quaymaster": (*world).start} {
		t.Run(who, func(t *testing.T) {
			bubble(t, nodes, func(w *world) {
				random := rand.New(rand.NewPCG(1, 0))
				w.lie(func(rw http.ResponseWriter, _ *http.Request) bool {
					time.Sleep(20 * time.Millisecond) // the latency of the cloud
					if random.Float64() >= 0.05 {
						return false
					}
					cloud.Problem(rw, http.StatusNotFound, cloudv1.CodeResourceNotFound)
					return true
				})
				start(w)
				w.pass(faulty)
				lost[who] = nodes - w.left()
				w.cloud.Intercept(nil)
				if who != "Quaymaster" {
					return
				}
				w.deleteInstance(7)
				began := time.Now()
				for w.exists(name(7)) && time.Since(began) < time.Hour {
					w.pass(time.Second)
				}
				gone := time.Since(began)
				t.Logf("a deleted instance's Node is gone after %s", gone)
				if gone > 3*time.Minute || w.left() != nodes-1 {
					t.Errorf("%d Nodes left; that of a deleted instance was gone after %s", w.left(), gone)
				}
			})
		})
	}
	for who, count := range lost {
		t.Logf("%s: %d of %d Nodes lost in %s", who, count, nodes, faulty)
	}
	if lost["Quaymaster"] != 0 || lost["k8s.io/cloud-provider"] < 24 {
		t.Errorf("lost Nodes: %v", lost)
	}
}

// startStock runs the controller of k8s.io/cloud-provider.
func startStock(w *world) {
	w.t.Helper()
	// Its deletions have no preconditions.
	api := fake.NewClientset()
	nodes, err := w.api.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
	w.must(err)
	for i := range nodes.Items {
		w.must(api.Tracker().Add(&nodes.Items[i]))
	}
	w.api = api
	factory := informers.NewSharedInformerFactory(w.api, 0)
	c, err := stock.NewCloudNodeLifecycleController(factory.Core().V1().Nodes(), w.api, plain.Provider{Cloud: w.cloud.Client}, 5*time.Second, 1)
	w.must(err)
	factory.Core().V1().Nodes().Informer()
	ctx, cancel := context.WithCancel(w.t.Context())
	factory.StartWithContext(ctx)
	factory.WaitForCacheSync(ctx.Done())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx, controllers.NewControllerManagerMetrics("demonstration"))
	}()
	w.stop = func() {
		cancel()
		<-done
		factory.Shutdown()
	}
}
