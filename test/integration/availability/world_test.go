package availability_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/internal/kube/leadership"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/env"
	"quaymaster.dev/test/harness/load"
)

const (
	ingressNode = "node.beta.kubernetes.io/dlb-ingress-node"
	// still is how long a replica must not write before it counts as idle.
	still = 3 * time.Second
)

// world is a cluster with one object of every kind that the controllers reconcile, and its cloud.
type world struct {
	*env.Env
	t     *testing.T
	audit auditLog
	cloud *cloud.Cloud
	api   kubernetes.Interface
	// lease holds the chart's flags for the lease, and the two durations in them.
	lease                   []string
	duration, renewDeadline time.Duration
}

func newWorld(t *testing.T) *world {
	t.Helper()
	audit, args := audited(t)
	w := &world{t: t, Env: env.Start(t, env.Options{APIServerArgs: args}), audit: audit, cloud: cloud.Start(t, 0)}
	w.lease = flags(t, podOf(t, "quaymaster-controllers"), "--leader-elect")
	w.duration, w.renewDeadline = w.limit("lease-duration"), w.limit("renew-deadline")
	var err error
	if w.api, err = kubernetes.NewForConfig(w.Admin); err != nil {
		t.Fatal(err)
	}
	// No webhook runs: the controllers do its work.
	if err := w.InstallChart(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"tier": "shared"}}})
	for i := range 4 {
		node := env.NewNode(i + 1)
		if i == 0 {
			node.Annotations = map[string]string{ingressNode: "true"}
		}
		w.Register(t, node)
	}
	for _, example := range []string{"policy-cluster.yaml", "policy-namespace.yaml", "volume.yaml"} {
		w.apply(example)
	}
	for i := range 3 {
		svc := load.Service(fmt.Sprintf("web-%d", i))
		svc.Namespace = "shop"
		w.create(svc)
	}
	return w
}

// limit returns one of the durations in the flags of the lease.
func (w *world) limit(name string) time.Duration {
	w.t.Helper()
	for _, flag := range w.lease {
		if value, found := strings.CutPrefix(flag, "--leader-elect-"+name+"="); found {
			limit, err := time.ParseDuration(value)
			if err != nil {
				w.t.Fatal(err)
			}
			return limit
		}
	}
	w.t.Fatalf("no %s in %v", name, w.lease)
	return 0
}

func (w *world) create(object client.Object) {
	w.t.Helper()
	if err := w.Client.Create(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

// apply applies one of the examples in the namespace shop.
func (w *world) apply(example string) {
	w.t.Helper()
	root, err := env.Root()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := env.Kubectl(w.t.Context(), w.AdminKubeconfig, "", "apply", "--namespace", "shop", "-f", root+"/examples/"+example)
	if err != nil || out.Code != 0 {
		w.t.Fatal(out.Stderr, err)
	}
}

// mark sets the groups of an ingress node.
func (w *world) mark(name, groups string) {
	w.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, ingressNode, groups)
	if err := w.Client.Patch(w.t.Context(), node, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		w.t.Fatal(err)
	}
}

// grouped creates a Service whose load balancer uses the Nodes of a group.
func (w *world) grouped(name, group string) *corev1.Service {
	w.t.Helper()
	svc := load.Service(name, builder.DLB("ingress-group", group))
	w.create(svc)
	return svc
}

// published waits until the Service has an address.
func (w *world) published(svc *corev1.Service, limit time.Duration) {
	w.t.Helper()
	w.AwaitAddress(w.t, limit, svc)
}

// leader returns the holder of the lease once it is not the former one.
func (w *world) leader(before string, limit time.Duration) string {
	w.t.Helper()
	var state leadership.State
	env.Eventually(w.t, limit, "a leader", func(ctx context.Context) error {
		var err error
		state, err = leadership.Read(ctx, w.api, leadership.Namespace, leadership.CloudLease)
		if err == nil && (!state.Held || state.Holder == before) {
			err = fmt.Errorf("it is %+v", state)
		}
		return err
	})
	return state.Holder
}

// quiet waits until a replica has reconciled everything and writes no more, neither to the cloud nor to the API server.
func (w *world) quiet(r *replica) {
	w.t.Helper()
	count := func() int {
		n := len(cloud.Writes(r.cloud.since(0)))
		for _, write := range w.writes(r, 0) {
			if !strings.Contains(write, " leases ") {
				n++
			}
		}
		return n
	}
	last, since := count(), time.Now()
	env.Eventually(w.t, time.Minute, "an end of "+r.name+"'s work", func(context.Context) error {
		time.Sleep(still / 10) // each count reads the whole log
		if now := count(); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) < still {
			return errors.New("it writes")
		}
		asked := strings.Join(r.cloud.since(0), "\n")
		for _, first := range []string{"GET /v1/load-balancers", "GET /v1/node-groups", "GET /v1/route-tables/rt-main/routes"} {
			if !strings.Contains(asked, first) {
				return fmt.Errorf("%s has not been asked", first)
			}
		}
		return nil
	})
}
