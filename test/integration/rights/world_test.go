package rights_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/cloud"
	"quaymaster.dev/test/env"
	"quaymaster.dev/test/rights"
)

// world is a cluster in which the chart is installed with some values, its cloud, and both roles between them.
type world struct {
	*env.Env
	t     *testing.T
	cloud *cloud.Cloud
	log   *rights.Log
	// values are the chart's, and rendered is what it makes of them.
	values   env.Values
	rendered []*unstructured.Unstructured

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
		// Clients list only where the API server does not stream, as elder ones do not.
		APIServerArgs: []string{"--feature-gates=WatchList=false"},
	})}
	var err error
	if w.rendered, err = env.RenderChart(ctx, values); err != nil {
		t.Fatal(err)
	}
	w.must(w.InstallChart(ctx, values))
	if w.log, err = rights.OpenLog(w.AuditLog()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.log.Close(); err != nil {
			t.Error(err)
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

// granted are the rights that the chart gives, with those of the API server's own roles that are named.
func (w *world) granted(others map[string][]rbacv1.PolicyRule) sets.Set[rights.Right] {
	w.t.Helper()
	if others == nil {
		others = map[string][]rbacv1.PolicyRule{}
		for name := range rights.WellKnown() {
			others[name] = nil
		}
	}
	granted, err := rights.Granted(w.rendered, others)
	w.must(err)
	return granted
}

// arguments are those of a role, as the chart has them; none if the chart runs no pods of it.
func (w *world) arguments(role string) []string {
	w.t.Helper()
	for _, object := range w.rendered {
		if object.GetKind() != "Deployment" || object.GetName() != "quaymaster-"+role {
			continue
		}
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		w.must(err)
		args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
		w.must(err)
		return args[1:] // after the role's name
	}
	w.t.Fatalf("the chart has no Deployment of the %s", role)
	return nil
}

// usesCloud tells whether a role is to read a cloud config.
func (w *world) usesCloud(role string) bool {
	return flag(w.arguments(role), "--cloud-config") != ""
}

// flag is the value of a flag among arguments, or empty.
func flag(args []string, name string) string {
	for _, arg := range args {
		if value, ok := strings.CutPrefix(arg, name+"="); ok {
			return value
		}
	}
	return ""
}

// portable are the arguments that mean the same outside of a pod: they name no port and no file.
func portable(args []string) []string {
	var kept []string
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		if !strings.HasSuffix(name, "-port") && !strings.HasSuffix(name, "-file") && !strings.HasSuffix(name, "-address") && name != "--cloud-config" {
			kept = append(kept, arg)
		}
	}
	return kept
}

// cloudConfig is that of both roles.
func (w *world) cloudConfig() env.CloudConfig {
	w.t.Helper()
	token := filepath.Join(w.Dir, "token")
	w.must(os.WriteFile(token, []byte(cloud.Token), 0o600))
	return env.CloudConfigFor("dev", &env.Mycloud{Endpoint: w.cloud.Endpoint, TokenFile: token})
}

// start runs both roles.
func (w *world) start() {
	w.startWebhook()
	kubeconfig, err := w.ServiceAccountKubeconfig(w.t.Context(), env.Namespace, "quaymaster-controllers")
	w.must(err)
	args := append(portable(w.arguments("controllers")),
		// Outside of pods only these make the controllers ask the API server who may read their metrics.
		"--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig)
	if w.usesCloud("controllers") {
		// As fast as the test likes it.
		args = append(args, "--node-monitor-period=1s", "--route-reconciliation-period=500ms")
	} else {
		args = append(args, "--cloud-config=")
	}
	w.controllers, err = w.StartControllers(w.t.Context(), w.cloudConfig(), args...)
	w.must(err)
}

// stop ends both roles, so that all they do is in the log.
func (w *world) stop() {
	w.t.Helper()
	w.must(w.controllers.Stop(soon))
	w.must(w.webhook.Stop(soon))
}

// create makes an object as the administrator.
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

// drive lets both roles do whatever they do with these values.
func (w *world) drive() {
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}})
	w.policies()
	w.unknownNamespace()
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
	w.uninstall()
}

// eventually waits for an answer about the cluster.
func (w *world) eventually(what string, check func(context.Context) error) {
	w.t.Helper()
	env.Eventually(w.t, soon, what, check)
}
