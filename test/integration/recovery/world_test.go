package recovery

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/kube/condition"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/harness/env"
)

const (
	// recovered bounds how long after a disaster, or its remedy, Services are served again. The longest way is that of a
	// load balancer whose absence the cloud has to confirm for a minute.
	recovered = 2 * time.Minute
	// machines is the number of instances of the example inventory that are Nodes.
	machines = 4
)

// world is a cluster, the controllers and their cloud.
type world struct {
	*env.Env
	*testing.T
	*guard
	// token is in tokenFile, which the controllers read.
	token, tokenFile string
	site             *site
	gateway          *gateway
	config           env.CloudConfig
	program          *program
	uid              string
}

// newWorld runs a cluster with Nodes, and its controllers.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, token: rand.Text(), tokenFile: filepath.Join(t.TempDir(), "token"), Env: env.Start(t, env.Options{})}
	writeToken(t, w.tokenFile, w.token)
	w.site = newSite(t, w.Env, "cloud", w.token)
	w.gateway = newGateway(t, w.site)
	must(t, w.InstallChart(t.Context(), nil))
	for i := range machines {
		w.Register(t, env.NewNode(i+1))
	}
	w.run()
	return w
}

// run runs the controllers.
func (w *world) run(args ...string) {
	w.Helper()
	w.config = env.CloudConfigFor("dev", &env.Mycloud{Endpoint: w.gateway.endpoint, TokenFile: w.tokenFile})
	server, err := w.PrepareControllers(w.Context(), w.config, append([]string{"--leader-elect"}, args...)...)
	must(w.T, err)
	w.program = supervise(w.T, "quaymaster-controllers", server)
	w.guard = observe(w.T, w.Client)
	w.uid = w.ClusterUID(w.T)
	w.eventually("providerIDs of all Nodes", func(ctx context.Context) error {
		var nodes corev1.NodeList
		if err := w.Client.List(ctx, &nodes); err != nil {
			return err
		}
		if len(nodes.Items) != machines || slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return n.Spec.ProviderID == "" }) {
			return errors.New("not yet")
		}
		return nil
	})
}

// row runs what happens in a row of the table.
func (w *world) row(name string, happens func()) {
	outer := w.T
	defer func() { w.T = outer }()
	if !outer.Run(name, func(t *testing.T) {
		w.T = t
		happens()
		w.guard.check(t)
	}) {
		outer.FailNow() // the rows share a cluster
	}
}

func (w *world) eventually(what string, check func(context.Context) error) {
	w.Helper()
	env.Eventually(w.T, recovered, what, check)
}

// silence makes all kubelets silent, or ends that.
func (w *world) silence(status corev1.ConditionStatus) {
	w.Helper()
	for i := range machines {
		w.SetReady(w.T, fmt.Sprintf("node-%d", i+1), status)
	}
}

// create creates Services.
func (w *world) create(names ...string) {
	w.Helper()
	for _, name := range names {
		must(w.T, w.Client.Create(w.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "web", Port: 80}},
			},
		}))
	}
}

func (w *world) get(ctx context.Context, name string) (*corev1.Service, error) {
	svc := &corev1.Service{}
	return svc, w.Client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}, svc)
}

// annotate sets an annotation of a Service.
func (w *world) annotate(name, key, value string) {
	w.Helper()
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	must(w.T, w.Client.Patch(w.Context(), svc, client.RawPatch("application/merge-patch+json", patch)))
}

// served waits until Services publish the addresses of their load balancers in the cloud, and are configured.
func (w *world) served(names ...string) {
	w.Helper()
	for _, name := range names {
		w.eventually("service "+name, func(ctx context.Context) error {
			svc, err := w.get(ctx, name)
			if err != nil {
				return err
			}
			list, err := w.site.client.ListLoadBalancers(ctx, cloudapi.ListOptions{Tags: map[string]string{
				ownership.ClusterUID: w.uid, ownership.ServiceUID: string(svc.UID),
			}})
			if err != nil {
				return err
			}
			if len(list.Items) != 1 || !slices.Equal(vips(list.Items[0]), addresses(svc)) || len(addresses(svc)) == 0 ||
				!meta.IsStatusConditionTrue(svc.Status.Conditions, condition.Configured) {
				return fmt.Errorf("addresses %q, load balancers %+v, conditions %+v", addresses(svc), list.Items, svc.Status.Conditions)
			}
			return nil
		})
	}
}

func vips(lb cloudv1.LoadBalancer) (list []string) {
	for _, vip := range lb.VIPs {
		list = append(list, vip.Address)
	}
	return list
}

// balancers returns the ids of all load balancers of the cloud.
func (w *world) balancers() (ids []string) {
	w.Helper()
	list, err := w.site.client.ListLoadBalancers(w.Context(), cloudapi.ListOptions{})
	must(w.T, err)
	for _, lb := range list.Items {
		ids = append(ids, lb.ID)
	}
	return ids
}

// keeps fails if one of the load balancers is gone.
func (w *world) keeps(before []string) {
	w.Helper()
	now := w.balancers()
	for _, id := range before {
		if !slices.Contains(now, id) {
			w.Errorf("load balancer %s was deleted", id)
		}
	}
}

// reports waits until a Service has a condition with the reason, whose message has the text.
func (w *world) reports(name, reason, text string) {
	w.Helper()
	w.eventually(fmt.Sprintf("reason %s of service %s", reason, name), func(ctx context.Context) error {
		svc, err := w.get(ctx, name)
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(svc.Status.Conditions, condition.Configured)
		if c == nil || c.Status == metav1.ConditionTrue || c.Reason != reason || !strings.Contains(c.Message, text) {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

// event waits for an Event with the reason, whose message has the text.
func (w *world) event(reason, text string) {
	w.Helper()
	w.AwaitEvent(w.T, recovered, fmt.Sprintf("event %s with %q", reason, text), func(e corev1.Event) bool {
		return e.Reason == reason && strings.Contains(e.Message, text)
	})
}

// quayctl runs a command of the operator.
func (w *world) quayctl(args ...string) string {
	w.Helper()
	path, err := env.Program("quayctl")
	must(w.T, err)
	out, err := exec.CommandContext(w.Context(), path, append(args, "--kubeconfig="+w.AdminKubeconfig)...).CombinedOutput()
	if err != nil {
		w.Fatalf("quayctl %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// takeOver runs the command that makes the cluster the holder, or the cloud at the endpoint that of the cluster.
func (w *world) takeOver() {
	w.Helper()
	config, err := w.CloudConfigArg("operator", w.config)
	must(w.T, err)
	if out := w.quayctl("takeover", "--yes", config); !strings.Contains(out, "this cluster may write to the cloud now") {
		w.Errorf("takeover:\n%s", out)
	}
}

// ran fails unless the controllers were started so many times.
func (w *world) ran(want int32) {
	w.Helper()
	if starts := w.program.starts.Load(); starts != want {
		w.Errorf("the controllers were started %d times, want %d", starts, want)
	}
}
