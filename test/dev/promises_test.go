package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/test/harness/env"
)

// TestPromises runs the commands of the guide in their order; each step builds on the previous one.
func TestPromises(t *testing.T) {
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	d := startDemonstration(t, t.TempDir())
	steps := []struct {
		name string
		run  func(*testing.T)
	}{
		{"an invalid Service is denied with all mistakes", d.deniesBadService},
		{"a valid Service gets a load balancer", d.admitsGoodService},
		{"its address answers, up to its limits", d.answers},
		{"its traffic is on the page", d.showsTraffic},
		{"the page works in a browser", d.showsPage},
		{"a change of max QPS is applied to the cloud", d.changesMaxQPS},
		{"an ingress node is selected without a change to the Service", d.selectsIngressNode},
		{"policies set defaults", d.setsDefaultsOfPolicies},
		{"policies set limits", d.limitsByPolicies},
		{"policies warn and count", d.enforcesPolicies},
		{"a policy that contradicts itself is denied", d.deniesBadPolicy},
		{"a volume gets zone labels and node affinity", d.setsZoneOfVolume},
		{"a volume that does not exist in the cloud is denied", d.deniesUnknownVolume},
		{"a volume is admitted while the cloud hangs, and completed later", d.admitsVolumeWithoutCloud},
		{"a claim is expanded up to the limit of the cloud", d.growsClaim},
		{"an impossible expansion is explained", d.explainsFixedClaim},
		{"every Node has a route", d.routesPods},
		{"restarted controllers write nothing", d.restartsControllers},
		{"the Node of a stopped instance only gets a taint", d.stopsInstance},
		{"the Node of a deleted instance is removed", d.deletesInstance},
		{"load balancers are deleted with their Services", d.deletesServices},
	}
	for _, step := range steps {
		if !t.Run(step.name, step.run) {
			t.FailNow()
		}
	}

	log, err := os.ReadFile(d.Log())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{". " + filepath.Join(d.dir, "env"), d.env["MYCLOUD_ENDPOINT"] + "/ui/", "mycloud.token"} {
		if !strings.Contains(string(log), want) || strings.Contains(string(log), "%!") {
			t.Errorf("the guide is broken or lacks %q:\n%s", want, log)
		}
	}
	pids := d.pids(t)
	if err := d.Stop(time.Minute); err != nil {
		t.Error(err)
	}
	if code, _ := d.Wait(time.Second); code != 0 {
		t.Errorf("exit code after SIGTERM: %d, want 0", code)
	}
	gone(t, pids)
	if _, err := os.Stat(filepath.Join(d.dir, "ready")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("ready file after termination: %v", err)
	}
}

// TestKilledRun kills the demonstration with SIGKILL and starts it again.
func TestKilledRun(t *testing.T) {
	dir := t.TempDir()
	first := startDemonstration(t, dir)
	pids := first.pids(t)
	first.Signal(syscall.SIGKILL)
	second := startDemonstration(t, dir)
	gone(t, pids)
	second.must(t, "get", "nodes")
}

func (d *demonstration) deniesBadService(t *testing.T) {
	out := d.kubectl(t, "apply", "-f", "examples/service-bad.yaml")
	if out.Code != 1 {
		t.Errorf("exit code %d, want 1", out.Code)
	}
	for _, want := range []string{
		`The Service "shop" is invalid:`,
		"metadata.annotations[" + loadbalancer.Prefix + "listener-maxqps]",
		"metadata.annotations[" + loadbalancer.Prefix + "listener-protocol]",
		"metadata.annotations[" + loadbalancer.Prefix + "health-check-timeout]",
		"metadata.annotations[" + loadbalancer.Prefix + "sheduler]",
		loadbalancer.Prefix + "scheduler",
	} {
		if !strings.Contains(out.Stderr, want) {
			t.Errorf("kubectl prints\n%s\nwithout %q", out.Stderr, want)
		}
	}
	if got := strings.Count(out.Stderr, "\n* "); got != 4 {
		t.Errorf("kubectl prints\n%s\nwith %d bullets, want 4", out.Stderr, got)
	}
	if err := d.kube.Get(t.Context(), shop(), &corev1.Service{}); !apierrors.IsNotFound(err) {
		t.Errorf("get the denied Service: %v, want not found", err)
	}
}

func (d *demonstration) admitsGoodService(t *testing.T) {
	d.must(t, "apply", "-f", "examples/service-good.yaml")
	service := d.service(t)
	if got := service.Annotations[loadbalancer.Prefix+"listener-idle-timeout"]; got != "60s" {
		t.Errorf("stored idle timeout %q, want the default 60s", got)
	}
	env.Eventually(t, 10*time.Second, "an address", func(ctx context.Context) error {
		return d.published(ctx)
	})
	var namespace corev1.Namespace
	if err := d.kube.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, &namespace); err != nil {
		t.Fatal(err)
	}
	lb := d.loadBalancer(t)
	if lb.Name != "dev-default-shop" {
		t.Errorf("name %q, want dev-default-shop", lb.Name)
	}
	for key, want := range map[string]string{
		"quaymaster.dev/cluster-uid": string(namespace.UID),
		"quaymaster.dev/service-uid": string(service.UID),
	} {
		if lb.Tags[key] != want {
			t.Errorf("tag %s is %q, want %q", key, lb.Tags[key], want)
		}
	}
	want := map[string]int{"tcp/80": 5000, "tcp/8443": 100}
	if diff := cmp.Diff(want, maxQPS(lb)); diff != "" {
		t.Errorf("max QPS by listener (-want +got):\n%s", diff)
	}
	if got := d.mycloud(t, "get", "load-balancers"); !strings.Contains(got, "dev-default-shop") {
		t.Errorf("mycloud get load-balancers prints\n%s", got)
	}
}

func (d *demonstration) changesMaxQPS(t *testing.T) {
	d.must(t, "annotate", "--overwrite", "service", "shop", loadbalancer.Prefix+"listener-maxqps=7000")
	want := map[string]int{"tcp/80": 7000, "tcp/8443": 100}
	env.Eventually(t, 10*time.Second, "the new max QPS", func(context.Context) error {
		if diff := cmp.Diff(want, maxQPS(d.loadBalancer(t))); diff != "" {
			return fmt.Errorf("max QPS by listener (-want +got):\n%s", diff)
		}
		return nil
	})
}

func (d *demonstration) selectsIngressNode(t *testing.T) {
	before := d.settled(t)
	if got := d.members(t); len(got) != 4 {
		t.Errorf("members %v before a Node is marked, want all four", got)
	}
	d.must(t, "annotate", "node", "node-2", "node.beta.kubernetes.io/dlb-ingress-node=true")
	env.Eventually(t, 5*time.Second, "node-2 as the only member", func(context.Context) error {
		if got := d.members(t); !slices.Equal(got, []string{"i-node-2"}) {
			return fmt.Errorf("members are %v", got)
		}
		return nil
	})
	if after := d.service(t).ResourceVersion; after != before {
		t.Errorf("resource version of the Service changed from %s to %s", before, after)
	}
}

// settled returns the resource version of the Service once the controllers have reported earlier changes in its status.
func (d *demonstration) settled(t *testing.T) (version string) {
	t.Helper()
	var since time.Time
	env.Eventually(t, 10*time.Second, "the end of earlier changes", func(context.Context) error {
		if now := d.service(t).ResourceVersion; now != version {
			version, since = now, time.Now()
		}
		if age := time.Since(since); age < time.Second {
			return fmt.Errorf("resource version %s is only %s old", version, age)
		}
		return nil
	})
	return version
}

func (d *demonstration) routesPods(t *testing.T) {
	env.Eventually(t, time.Minute, "a route to every Node", func(ctx context.Context) error {
		var nodes corev1.NodeList
		if err := d.kube.List(ctx, &nodes); err != nil {
			return err
		}
		want := map[string]string{}
		for _, node := range nodes.Items {
			want[node.Spec.PodCIDR] = strings.TrimPrefix(node.Spec.ProviderID, "mycloud://")
		}
		routes, err := d.cloud.ListRoutes(ctx, "rt-main", cloudapi.ListOptions{})
		if err != nil {
			return err
		}
		got := map[string]string{}
		for _, route := range routes.Items {
			got[route.Destination] = route.NextHop.InstanceID
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("instances by pod CIDR (-want +got):\n%s", diff)
		}
		return nil
	})
}

func (d *demonstration) restartsControllers(t *testing.T) {
	before := d.revisions(t)
	old := d.pid(t, "quaymaster-controllers")
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, time.Minute, "another controllers process", func(context.Context) error {
		if files, _ := filepath.Glob(filepath.Join(d.dir, "pids", "quaymaster-controllers.pid")); len(files) == 0 {
			return errors.New("none is running")
		}
		if d.pid(t, "quaymaster-controllers") == old {
			return errors.New("the old one is still running")
		}
		return nil
	})
	// The new process reconciles existing Services before this new one.
	d.must(t, "create", "service", "loadbalancer", "probe", "--tcp=81")
	env.Eventually(t, time.Minute, "reconciliation by the new process", func(ctx context.Context) error {
		var service corev1.Service
		if err := d.kube.Get(ctx, client.ObjectKey{Namespace: "default", Name: "probe"}, &service); err != nil {
			return err
		}
		if len(service.Status.LoadBalancer.Ingress) == 0 {
			return errors.New("the probe has no address yet")
		}
		return nil
	})
	after := d.revisions(t)
	for id, revision := range before {
		if after[id] != revision {
			t.Errorf("revision of %s changed from %s to %s", id, revision, after[id])
		}
	}
	d.must(t, "delete", "service", "probe", "--timeout=30s")
}

func (d *demonstration) stopsInstance(t *testing.T) {
	d.mycloud(t, "stop", "instance", "i-node-3")
	env.Eventually(t, 30*time.Second, "the shutdown taint", func(ctx context.Context) error {
		return d.node(ctx, "node-3", func(node *corev1.Node) bool { return tainted(node) && !isReady(node) })
	})
	d.mycloud(t, "start", "instance", "i-node-3")
	env.Eventually(t, 30*time.Second, "a ready Node", func(ctx context.Context) error {
		return d.node(ctx, "node-3", func(node *corev1.Node) bool { return !tainted(node) && isReady(node) })
	})
}

func (d *demonstration) deletesInstance(t *testing.T) {
	d.mycloud(t, "delete", "instance", "i-node-4")
	env.Eventually(t, 30*time.Second, "the removal of node-4", func(ctx context.Context) error {
		err := d.kube.Get(ctx, client.ObjectKey{Name: "node-4"}, &corev1.Node{})
		if err == nil {
			return errors.New("it still exists")
		}
		return client.IgnoreNotFound(err)
	})
}

func (d *demonstration) deletesServices(t *testing.T) {
	d.must(t, "delete", "service", "shop", "api", "web", "--timeout=30s")
	list, err := d.cloud.ListLoadBalancers(t.Context(), cloudapi.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 0 {
		t.Errorf("load balancers of deleted Services still exist: %v", list.Items)
	}
}

func shop() client.ObjectKey { return client.ObjectKey{Namespace: "default", Name: "shop"} }

func (d *demonstration) service(t *testing.T) *corev1.Service {
	t.Helper()
	var service corev1.Service
	if err := d.kube.Get(t.Context(), shop(), &service); err != nil {
		t.Fatal(err)
	}
	return &service
}

func (d *demonstration) published(ctx context.Context) error {
	var service corev1.Service
	if err := d.kube.Get(ctx, shop(), &service); err != nil {
		return err
	}
	if len(service.Status.LoadBalancer.Ingress) == 0 {
		return errors.New("status has no ingress")
	}
	return nil
}

func (d *demonstration) loadBalancer(t *testing.T) *cloudv1.LoadBalancer {
	t.Helper()
	list, err := d.cloud.ListLoadBalancers(t.Context(), cloudapi.ListOptions{Name: "dev-default-shop"})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 {
		t.Fatalf("%d load balancers named dev-default-shop, want 1", len(list.Items))
	}
	return &list.Items[0]
}

func maxQPS(lb *cloudv1.LoadBalancer) map[string]int {
	found := map[string]int{}
	for _, listener := range lb.Listeners {
		found[listener.Key] = listener.MaxQPS
	}
	return found
}

// members returns the instances to which the Service's load balancer sends traffic.
func (d *demonstration) members(t *testing.T) []string {
	t.Helper()
	health, err := d.cloud.LoadBalancerHealth(t.Context(), d.loadBalancer(t).ID)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, pool := range health.Pools {
		for _, member := range pool.Members {
			if !slices.Contains(found, member.InstanceID) {
				found = append(found, member.InstanceID)
			}
		}
	}
	slices.Sort(found)
	return found
}

// revisions returns the revisions of all cloud objects that the controllers write.
func (d *demonstration) revisions(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	lb := d.loadBalancer(t)
	found[lb.ID] = lb.Revision
	groups, err := d.cloud.ListNodeGroups(t.Context(), cloudapi.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range groups.Items {
		found[group.ID] = group.Revision
	}
	routes, err := d.cloud.ListRoutes(t.Context(), "rt-main", cloudapi.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, route := range routes.Items {
		found[route.ID] = route.Revision
	}
	return found
}

// node returns an error unless a Node is in the expected state.
func (d *demonstration) node(ctx context.Context, name string, as func(*corev1.Node) bool) error {
	var node corev1.Node
	if err := d.kube.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
		return err
	}
	if !as(&node) {
		return fmt.Errorf("it has the taints %v and the conditions %v", node.Spec.Taints, node.Status.Conditions)
	}
	return nil
}

func tainted(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key == cloudproviderapi.TaintNodeShutdown
	})
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	})
}
