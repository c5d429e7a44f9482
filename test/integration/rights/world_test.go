package rights_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/env"
	"quaymaster.dev/test/harness/rights"
)

// world is a cluster in which the chart is installed with some values, its cloud, and both roles.
type world struct {
	*env.Env
	t     *testing.T
	cloud *cloud.Cloud
	log   *rights.Log
	// values are the values of the chart, and rendered are the objects rendered from them.
	values   env.Values
	rendered []*unstructured.Unstructured

	// issuing ends when cert-manager has done its part.
	issuing errgroup.Group
	// address is where the webhooks are called.
	address     string
	webhook     *env.Webhook
	controllers *env.Server
}

func newWorld(t *testing.T, values env.Values) *world {
	t.Helper()
	ctx := t.Context()
	w := &world{t: t, values: values, cloud: cloud.Start(t, 0), Env: env.Start(t, env.Options{
		Audit: true,
		// Clients only list if the API server does not stream lists, as older ones do not.
		APIServerArgs: []string{"--feature-gates=WatchList=false"},
	})}
	var err error
	if w.rendered, err = env.RenderChart(values); err != nil {
		t.Fatal(err)
	}
	w.must(w.InstallChart(ctx, values))
	if w.log, err = rights.OpenLog(w.AuditLog()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A missing right may have ended a test early.
		if err := errors.Join(w.issuing.Wait(), w.log.Read(), w.log.Close()); err != nil {
			t.Error(err)
		}
		for refused := range w.log.Forbidden {
			t.Errorf("a right is missing: %s", refused)
		}
	})
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// cloudConfig returns the cloud config of both roles.
func (w *world) cloudConfig() env.CloudConfig {
	w.t.Helper()
	token := filepath.Join(w.Dir, "token")
	w.must(os.WriteFile(token, []byte(cloud.Token), 0o600))
	return env.CloudConfigFor("dev", &env.Mycloud{Endpoint: w.cloud.Endpoint, TokenFile: token})
}

// start runs both roles.
func (w *world) start() {
	w.startWebhook()
	args := portable(w.arguments("controllers"))
	if w.usesCloud("controllers") {
		// Client-side rate limits would only slow the test down.
		args = append(args, "--node-monitor-period=1s", "--route-reconciliation-period=500ms")
	} else {
		args = append(args, "--cloud-config=")
	}
	var err error
	w.controllers, err = w.StartControllers(w.t.Context(), w.cloudConfig(), args...)
	w.must(err)
}

// stop ends both roles, so that the log contains everything they do.
func (w *world) stop() {
	w.t.Helper()
	w.must(w.controllers.Stop(soon))
	w.must(w.webhook.Stop(soon))
}

// create creates an object as the administrator.
func (w *world) create(object client.Object) {
	w.t.Helper()
	w.must(w.Client.Create(w.t.Context(), object))
}

// patch changes an object as the administrator.
func (w *world) patch(object client.Object, change func()) {
	w.t.Helper()
	w.must(w.Client.Get(w.t.Context(), client.ObjectKeyFromObject(object), object))
	before := object.DeepCopyObject().(client.Object)
	change()
	w.must(w.Client.Patch(w.t.Context(), object, client.MergeFrom(before)))
}

// drive makes both roles do everything that they do with these values.
func (w *world) drive() {
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}})
	w.policies()
	w.unknownNamespace()
	w.bundles()
	w.claims()
	w.metrics()
	if w.usesCloud("controllers") {
		w.nodes()
		if flag(w.arguments("controllers"), "--configure-cloud-routes") == "true" {
			w.routes()
		}
		w.services()
		w.volumes()
	}
	w.probe()
}
