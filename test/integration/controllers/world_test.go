package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/env"
)

const (
	// soon bounds how long the controllers take for what a user waits for.
	soon = 10 * time.Second
	// ingressSoon is the promise for a change of ingress nodes.
	ingressSoon = 5 * time.Second

	annotation  = "service.beta.kubernetes.io/dlb-"
	ingressNode = "node.beta.kubernetes.io/dlb-ingress-node"
)

// world is a cluster with four Nodes, its cloud, and the controllers.
type world struct {
	t           *testing.T
	env         *env.Env
	client      client.Client
	cloud       *cloud.Cloud
	controllers *env.Server
	clusterUID  string
	config      env.CloudConfig
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, env: env.Start(t, env.Options{}), cloud: cloud.Start(t, 0)}
	w.client = w.env.Client
	ctx := t.Context()
	// The webhooks of the chart are not running: everything that reaches the controllers has bypassed admission.
	if err := w.env.InstallChart(ctx, nil); err != nil {
		t.Fatal(err)
	}
	w.clusterUID = w.env.ClusterUID(t)
	for i := 1; i <= 4; i++ {
		w.env.Register(t, env.NewNode(i))
	}
	w.config = w.cloudConfig(w.cloud.Endpoint)
	return w
}

func (w *world) cloudConfig(endpoint string) env.CloudConfig {
	w.t.Helper()
	tokenFile := filepath.Join(w.env.Dir, "token")
	if err := os.WriteFile(tokenFile, []byte(cloud.Token), 0o600); err != nil {
		w.t.Fatal(err)
	}
	config := env.CloudConfigFor("dev", &env.Mycloud{Endpoint: endpoint, TokenFile: tokenFile})
	// A few Nodes would otherwise take minutes to leave one by one.
	config["ingressNodes"] = map[string]any{"maxRemovedPercentPerMinute": 100}
	return config
}

// start runs the controllers.
func (w *world) start(args ...string) {
	w.t.Helper()
	var err error
	if w.controllers, err = w.env.StartControllers(w.t.Context(), w.config, args...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) node(name string) *corev1.Node {
	w.t.Helper()
	node := &corev1.Node{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: name}, node); err != nil {
		w.t.Fatal(err)
	}
	return node
}

// annotateNode sets the ingress-node annotation; an empty value removes it.
func (w *world) annotateNode(name, value string) {
	w.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	w.patch(node, map[string]string{ingressNode: value})
}

// patch sets annotations; an empty value removes one.
func (w *world) patch(object client.Object, annotations map[string]string) {
	w.t.Helper()
	before := object.DeepCopyObject().(client.Object)
	key := client.ObjectKeyFromObject(object)
	if err := w.client.Get(w.t.Context(), key, before); err != nil {
		w.t.Fatal(err)
	}
	after := before.DeepCopyObject().(client.Object)
	all := maps.Clone(after.GetAnnotations())
	if all == nil {
		all = map[string]string{}
	}
	for k, v := range annotations {
		if all[k] = v; v == "" {
			delete(all, k)
		}
	}
	after.SetAnnotations(all)
	if err := w.client.Patch(w.t.Context(), after, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

// service creates a Service of type LoadBalancer with a TCP port 80 named web.
func (w *world) service(name string, change ...func(*corev1.Service)) *corev1.Service {
	w.t.Helper()
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Type:  corev1.ServiceTypeLoadBalancer,
			Ports: []corev1.ServicePort{{Name: "web", Port: 80}},
		},
	}
	for _, c := range change {
		c(svc)
	}
	if err := w.client.Create(w.t.Context(), svc); err != nil {
		w.t.Fatal(err)
	}
	return svc
}

func (w *world) get(svc *corev1.Service) *corev1.Service {
	w.t.Helper()
	now := &corev1.Service{}
	if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(svc), now); err != nil {
		w.t.Fatal(err)
	}
	return now
}

// balancers returns the cloud's load balancers of a Service.
func (w *world) balancers(ctx context.Context, svc *corev1.Service) ([]cloudv1.LoadBalancer, error) {
	list, err := w.cloud.Client.ListLoadBalancers(ctx, cloudapi.ListOptions{Tags: map[string]string{
		ownership.ClusterUID: w.clusterUID, ownership.ServiceUID: string(svc.UID),
	}})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// balancer returns the only load balancer of a Service once check accepts it.
func (w *world) balancer(svc *corev1.Service, what string, check func(cloudv1.LoadBalancer) bool) cloudv1.LoadBalancer {
	w.t.Helper()
	var found cloudv1.LoadBalancer
	env.Eventually(w.t, soon, what, func(ctx context.Context) error {
		all, err := w.balancers(ctx, svc)
		if err != nil {
			return err
		}
		if len(all) != 1 {
			return fmt.Errorf("%d load balancers", len(all))
		}
		if !check(all[0]) {
			return fmt.Errorf("it is %+v", all[0])
		}
		found = all[0]
		return nil
	})
	return found
}

// published waits until the Service has an address.
func (w *world) published(svc *corev1.Service) *corev1.Service {
	w.t.Helper()
	return w.env.AwaitAddress(w.t, soon, svc)
}

// gone waits until the object no longer exists.
func (w *world) gone(object client.Object, limit time.Duration) {
	w.t.Helper()
	env.Eventually(w.t, limit, "the end of "+object.GetName(), func(ctx context.Context) error {
		err := w.client.Get(ctx, client.ObjectKeyFromObject(object), object.DeepCopyObject().(client.Object))
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err == nil {
			return errors.New("it is still there")
		}
		return nil
	})
}

// members waits until a group has exactly these instances.
func (w *world) members(group string, want ...string) {
	w.t.Helper()
	env.Eventually(w.t, ingressSoon, fmt.Sprintf("members %v of group %s", want, group), func(ctx context.Context) error {
		list, err := w.cloud.Client.ListNodeGroups(ctx, cloudapi.ListOptions{Tags: map[string]string{
			ownership.ClusterUID: w.clusterUID, ownership.IngressGroup: group,
		}})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("%d groups", len(list.Items))
		}
		var got []string
		for _, m := range list.Items[0].Members {
			got = append(got, m.InstanceID)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("members %v", got)
		}
		return nil
	})
}

// event waits for an Event about an object.
func (w *world) event(object client.Object, text string) {
	w.t.Helper()
	what := fmt.Sprintf("event with %q about %s", text, object.GetName())
	w.env.AwaitEvent(w.t, soon, what, func(e corev1.Event) bool {
		return e.InvolvedObject.Name == object.GetName() && strings.Contains(e.Reason+": "+e.Message, text)
	})
}

// discard is a ResponseWriter that discards the response.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// serve makes the cloud available at a second address until the test ends.
func serve(t *testing.T, address string, handler http.Handler) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: soon}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
}
