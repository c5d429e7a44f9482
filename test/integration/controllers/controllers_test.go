package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/nodelifecycle"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/env"
)

// The steps depend on each other: they are the life of one cluster.
func TestControllers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	for _, step := range []struct {
		name string
		run  func(*world)
	}{
		{"nodes are initialised", nodesAreInitialised},
		{"every node has a route", routesPerNode},
		{"a service gets a load balancer", serviceGetsLoadBalancer},
		{"a load balancer follows its service", loadBalancerFollows},
		{"a service of our class is served", classIsServed},
		{"ingress nodes follow annotations", ingressNodesFollow},
		{"a mistake changes nothing", mistakeChangesNothing},
		{"an outage is reported", outageIsReported},
		{"a restart writes nothing", restartWritesNothing},
		{"a service changes hands during a restart", changesHands},
		{"a crash after the creation leaves one load balancer", crashAfterCreate},
		{"a stopped instance taints its node", stoppedInstance},
		{"a deleted instance takes its node along", deletedInstance},
		{"a second one waits for a person", secondDeletedInstance},
		{"a node without a machine waits for a person", nodeWithoutMachine},
		{"a protected load balancer waits", protectedWaits},
		{"a service takes its load balancer along", deletedService},
	} {
		passed := t.Run(step.name, func(t *testing.T) {
			inStep := *w
			inStep.t = t
			step.run(&inStep)
			w.controllers = inStep.controllers
		})
		if !passed {
			t.Fatal("the other steps build on this one")
		}
	}
}

func nodesAreInitialised(w *world) {
	for i, zone := range []string{"eu-1a", "eu-1b", "eu-1c", "eu-1a"} {
		name := fmt.Sprintf("node-%d", i+1)
		env.Eventually(w.t, soon, "initialisation of "+name, func(context.Context) error {
			node := w.node(name)
			if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == cloudproviderapi.TaintExternalCloudProvider }) {
				return errors.New("it is tainted")
			}
			if len(node.Status.Addresses) == 0 {
				return errors.New("it has no addresses")
			}
			return nil
		})
		node := w.node(name)
		got := []string{
			node.Spec.ProviderID, node.Labels[corev1.LabelTopologyZone], node.Labels[corev1.LabelTopologyRegion],
			node.Labels[corev1.LabelInstanceTypeStable],
		}
		if diff := cmp.Diff([]string{"mycloud://i-" + name, zone, "eu-1", "m1.medium"}, got); diff != "" {
			w.t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		addresses := []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.0.1%d", i+1)},
			{Type: corev1.NodeExternalIP, Address: fmt.Sprintf("198.51.100.1%d", i+1)},
			{Type: corev1.NodeHostName, Address: name},
		}
		if diff := cmp.Diff(addresses, node.Status.Addresses); diff != "" {
			w.t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// routes waits until the cluster has exactly these routes, as destination and instance.
func (w *world) routes(limit time.Duration, want map[string]string) {
	w.t.Helper()
	env.Eventually(w.t, limit, "routes", func(ctx context.Context) error {
		list, err := w.cloud.Client.ListRoutes(ctx, "rt-main", cloudapi.ListOptions{Tags: map[string]string{ownership.ClusterUID: w.clusterUID}})
		if err != nil {
			return err
		}
		got := map[string]string{}
		for _, r := range list.Items {
			got[r.Destination] = r.NextHop.InstanceID
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

func routesPerNode(w *world) {
	w.routes(soon, map[string]string{
		"10.244.1.0/24": "i-node-1", "10.244.2.0/24": "i-node-2", "10.244.3.0/24": "i-node-3", "10.244.4.0/24": "i-node-4",
	})
	env.Eventually(w.t, soon, "the nodes' network", func(context.Context) error {
		for _, c := range w.node("node-1").Status.Conditions {
			if c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse {
				return nil
			}
		}
		return errors.New("it is not available")
	})
}

// firstWrites are the writes for the first load balancer in a group: the node group, its members and the load balancer.
func (w *world) firstWrites(group string) []string {
	w.t.Helper()
	list, err := w.cloud.Client.ListNodeGroups(w.t.Context(), cloudapi.ListOptions{Name: "dev-" + group})
	if err != nil || len(list.Items) != 1 {
		w.t.Fatalf("node groups %v, %v; want one", list, err)
	}
	return []string{"POST /v1/node-groups", "PATCH /v1/node-groups/" + list.Items[0].ID + "/members", "POST /v1/load-balancers"}
}

func serviceGetsLoadBalancer(w *world) {
	w.cloud.Calls()
	svc := w.service("web", func(svc *corev1.Service) {
		svc.Annotations[annotation+"listener-maxqps"] = "5000"
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: "tls", Port: 443})
	})
	svc = w.published(svc)
	lb := w.balancer(svc, "load balancer", func(cloudv1.LoadBalancer) bool { return true })
	writes := cloud.Writes(w.cloud.Calls())
	if diff := cmp.Diff(w.firstWrites("default"), writes); diff != "" {
		w.t.Errorf("unexpected writes (-want +got):\n%s", diff)
	}
	if lb.Name != "dev-default-web" || svc.Status.LoadBalancer.Ingress[0].IP != lb.VIPs[0].Address {
		w.t.Errorf("load balancer %s at %v, published %v", lb.Name, lb.VIPs, svc.Status.LoadBalancer.Ingress)
	}
	tags := map[string]string{ownership.ClusterUID: w.clusterUID, ownership.ServiceUID: string(svc.UID)}
	if diff := cmp.Diff(tags, lb.Tags); diff != "" {
		w.t.Errorf("unexpected tags (-want +got):\n%s", diff)
	}
	for _, l := range lb.Listeners {
		if l.MaxQPS != 5000 {
			w.t.Errorf("listener %s has max_qps %d, want 5000", l.Key, l.MaxQPS)
		}
	}
	if len(lb.Listeners) != 2 || len(lb.Pools) != 2 || lb.Pools[0].TargetPort != svc.Spec.Ports[0].NodePort {
		w.t.Errorf("unexpected listeners and pools: %+v", lb.LoadBalancerFields)
	}
	if !servicehelpers.HasLBFinalizer(svc) {
		w.t.Errorf("the service has the finalizers %q", svc.Finalizers)
	}
	w.condition(svc, metav1.ConditionTrue, "Configured", "")
	w.members("default", "i-node-1", "i-node-2", "i-node-3", "i-node-4")
}

// condition waits for a condition of the Service.
func (w *world) condition(svc *corev1.Service, status metav1.ConditionStatus, reason, message string) {
	w.t.Helper()
	env.Eventually(w.t, soon, "condition of "+svc.Name, func(context.Context) error {
		c := meta.FindStatusCondition(w.get(svc).Status.Conditions, "quaymaster.dev/LoadBalancerConfigured")
		if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

func (w *world) web() *corev1.Service {
	return w.get(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web"}})
}

func loadBalancerFollows(w *world) {
	svc := w.web()
	address := svc.Status.LoadBalancer.Ingress[0].IP
	w.cloud.Calls()
	w.patch(svc, map[string]string{annotation + "listener-maxqps": "6000", annotation + "listener-maxqps.tls": "70"})
	w.balancer(svc, "changed QPS", func(lb cloudv1.LoadBalancer) bool {
		return qps(lb, "tcp/80") == 6000 && qps(lb, "tcp/443") == 70
	})
	svc = w.web()
	changed := svc.DeepCopy()
	changed.Spec.Ports[0].Port = 8080
	if err := w.client.Patch(w.t.Context(), changed, client.MergeFrom(svc)); err != nil {
		w.t.Fatal(err)
	}
	w.balancer(svc, "changed port", func(lb cloudv1.LoadBalancer) bool {
		return qps(lb, "tcp/8080") == 6000 && qps(lb, "tcp/80") < 0 && len(lb.Listeners) == 2
	})
	writes := cloud.Writes(w.cloud.Calls())
	if len(writes) != 2 || !strings.HasPrefix(writes[0], "PUT /v1/load-balancers/") || writes[0] != writes[1] {
		w.t.Errorf("writes %v, want two PUTs of the load balancer", writes)
	}
	if now := w.web().Status.LoadBalancer.Ingress[0].IP; now != address {
		w.t.Errorf("the published address changed from %s to %s", address, now)
	}
}

// qps returns the limit of a listener, or -1 if there is no such listener.
func qps(lb cloudv1.LoadBalancer, key string) int {
	for _, l := range lb.Listeners {
		if l.Key == key {
			return l.MaxQPS
		}
	}
	return -1
}

func classIsServed(w *world) {
	ours := w.service("ours", func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = new("mycloud.io/dlb") })
	other := w.service("other", func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = new("example.com/lb") })
	ours = w.published(ours)
	if ours.Spec.LoadBalancerClass == nil || *ours.Spec.LoadBalancerClass != "mycloud.io/dlb" {
		w.t.Errorf("the class became %v", ours.Spec.LoadBalancerClass)
	}
	if other = w.get(other); len(other.Finalizers) != 0 || len(other.Status.LoadBalancer.Ingress) != 0 {
		w.t.Errorf("a service of another class was touched: %+v", other)
	}
	for _, svc := range []*corev1.Service{ours, other} {
		if err := w.client.Delete(w.t.Context(), svc); err != nil {
			w.t.Fatal(err)
		}
		w.gone(svc, soon)
	}
	if left, err := w.balancers(w.t.Context(), ours); err != nil || len(left) != 0 {
		w.t.Errorf("%d load balancers are left, %v", len(left), err)
	}
}

func ingressNodesFollow(w *world) {
	before := w.web().ResourceVersion
	w.cloud.Calls()
	w.annotateNode("node-2", "true")
	w.members("default", "i-node-2")
	writes := cloud.Writes(w.cloud.Calls())
	if len(writes) != 1 || !strings.HasSuffix(writes[0], "/members") {
		w.t.Errorf("writes %v, want one change of members", writes)
	}

	w.annotateNode("node-3", "true")
	w.members("default", "i-node-2", "i-node-3")
	w.env.SetReady(w.t, "node-3", corev1.ConditionFalse)
	w.members("default", "i-node-2")
	// No news of a Node is no reason to remove it.
	w.env.SetReady(w.t, "node-2", corev1.ConditionUnknown)
	w.env.SetReady(w.t, "node-3", corev1.ConditionTrue)
	w.members("default", "i-node-2", "i-node-3")
	w.env.SetReady(w.t, "node-2", corev1.ConditionTrue)

	w.annotateNode("node-2", "yes please")
	w.event(w.node("node-2"), `annotation `+ingressNode+`: invalid value "yes please"`)
	w.annotateNode("node-3", "")
	w.members("default", "i-node-2")

	w.annotateNode("node-2", "false")
	w.members("default", "i-node-1", "i-node-3", "i-node-4")
	w.annotateNode("node-2", "")
	w.annotateNode("node-1", "true")
	w.members("default", "i-node-1")
	if after := w.web().ResourceVersion; after != before {
		w.t.Errorf("the service changed from version %s to %s", before, after)
	}
}

func mistakeChangesNothing(w *world) {
	svc := w.web()
	revision := w.balancer(svc, "load balancer", func(cloudv1.LoadBalancer) bool { return true }).Revision
	w.cloud.Calls()
	w.patch(svc, map[string]string{annotation + "listener-maxqps": "many", annotation + "shceduler": "round-robin"})
	const first = `metadata.annotations[` + annotation + `listener-maxqps]: Invalid value: "many"`
	w.condition(svc, metav1.ConditionFalse, "InvalidConfiguration", first)
	w.condition(svc, metav1.ConditionFalse, "InvalidConfiguration", annotation+"shceduler")
	w.event(svc, first)
	if writes := cloud.Writes(w.cloud.Calls()); len(writes) != 0 {
		w.t.Errorf("writes %v, want none", writes)
	}
	w.patch(svc, map[string]string{annotation + "listener-maxqps": "6000", annotation + "shceduler": ""})
	w.condition(svc, metav1.ConditionTrue, "Configured", "")
	if now := w.balancer(svc, "load balancer", func(cloudv1.LoadBalancer) bool { return true }).Revision; now != revision {
		w.t.Errorf("the load balancer's revision changed from %s to %s", revision, now)
	}
}

// revisions returns the revisions of everything that the controllers write in the cloud.
func (w *world) revisions() map[string]string {
	w.t.Helper()
	ctx, all := w.t.Context(), map[string]string{}
	balancers, err1 := w.cloud.Client.ListLoadBalancers(ctx, cloudapi.ListOptions{})
	groups, err2 := w.cloud.Client.ListNodeGroups(ctx, cloudapi.ListOptions{})
	routes, err3 := w.cloud.Client.ListRoutes(ctx, "rt-main", cloudapi.ListOptions{})
	if err := errors.Join(err1, err2, err3); err != nil {
		w.t.Fatal(err)
	}
	for _, o := range balancers.Items {
		all[o.ID] = o.Revision
	}
	for _, o := range groups.Items {
		all[o.ID] = o.Revision
	}
	for _, o := range routes.Items {
		all[o.ID] = o.Revision
	}
	return all
}

func restartWritesNothing(w *world) {
	before, version := w.revisions(), w.web().ResourceVersion
	w.controllers.Kill()
	w.cloud.Calls()
	if err := w.controllers.Restart(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	// These are all requests that a start makes.
	waiting := map[string]bool{"GET /v1/load-balancers": true, "GET /v1/node-groups": true, "GET /v1/route-tables/rt-main/routes": true}
	var calls []string
	env.Eventually(w.t, 30*time.Second, "the controllers' first look", func(context.Context) error {
		calls = append(calls, w.cloud.Calls()...)
		for _, call := range calls {
			delete(waiting, call)
		}
		if len(waiting) > 0 {
			return fmt.Errorf("not asked yet: %v", waiting)
		}
		return nil
	})
	// Changes after the start are reconciled.
	w.annotateNode("node-4", "edge")
	svc := w.service("after", func(svc *corev1.Service) { svc.Annotations[annotation+"ingress-group"] = "edge" })
	w.published(svc)
	w.members("edge", "i-node-4")
	writes := cloud.Writes(append(calls, w.cloud.Calls()...))
	if diff := cmp.Diff(w.firstWrites("edge"), writes); diff != "" {
		w.t.Errorf("unexpected writes (-want +got):\n%s", diff)
	}
	if now := w.web().ResourceVersion; now != version {
		w.t.Errorf("the service changed from version %s to %s", version, now)
	}
	after := w.revisions()
	for id, revision := range before {
		if after[id] != revision {
			w.t.Errorf("%s changed from revision %s to %s", id, revision, after[id])
		}
	}
}

func crashAfterCreate(w *world) {
	crashed := make(chan struct{})
	w.cloud.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || r.URL.Path != "/v1/load-balancers" {
			return false
		}
		w.cloud.Serve(discard{http.Header{}}, r)
		w.controllers.Kill()
		close(crashed)
		panic(http.ErrAbortHandler)
	})
	svc := w.service("crash")
	select {
	case <-crashed:
	case <-time.After(soon):
		w.t.Fatal("the cloud was not asked to create a load balancer")
	}
	w.cloud.Intercept(nil)
	made := w.balancer(svc, "what was created before the crash", func(cloudv1.LoadBalancer) bool { return true })
	if ingress := w.get(svc).Status.LoadBalancer.Ingress; len(ingress) != 0 {
		w.t.Fatalf("published %v before the crash", ingress)
	}
	if err := w.controllers.Restart(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	svc = w.published(svc)
	after := w.balancer(svc, "load balancer after the restart", func(cloudv1.LoadBalancer) bool { return true })
	if after.ID != made.ID || after.Revision != made.Revision || svc.Status.LoadBalancer.Ingress[0].IP != made.VIPs[0].Address {
		w.t.Errorf("load balancer %s at revision %s, want %s at %s", after.ID, after.Revision, made.ID, made.Revision)
	}
}

func stoppedInstance(w *world) {
	if _, err := w.cloud.Client.StopInstance(w.t.Context(), "i-node-3", cloudapi.WriteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.env.SetReady(w.t, "node-3", corev1.ConditionFalse)
	env.Eventually(w.t, 20*time.Second, "taint of node-3", func(context.Context) error {
		for _, taint := range w.node("node-3").Spec.Taints {
			if taint.Key == cloudproviderapi.TaintNodeShutdown {
				return nil
			}
		}
		return errors.New("no taint")
	})
}

func deletedInstance(w *world) {
	if _, err := w.cloud.Client.DeleteInstance(w.t.Context(), "i-node-2", cloudapi.WriteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.env.SetReady(w.t, "node-2", corev1.ConditionUnknown)
	w.gone(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}}, 20*time.Second)
	w.routes(20*time.Second, map[string]string{
		"10.244.1.0/24": "i-node-1", "10.244.3.0/24": "i-node-3", "10.244.4.0/24": "i-node-4",
	})
	w.node("node-3")
}

// Of four Nodes, one may be removed within ten minutes.
func secondDeletedInstance(w *world) {
	if _, err := w.cloud.Client.DeleteInstance(w.t.Context(), "i-node-3", cloudapi.WriteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	node := w.node("node-3")
	w.event(node, "lost the machine of the node, and those of too many other nodes, too")
	w.patch(node, map[string]string{nodelifecycle.AnnotationAllowDeletion: "true"})
	w.gone(node, 20*time.Second)
}

func nodeWithoutMachine(w *world) {
	ghost := env.NewNode(9)
	ghost.Name, ghost.Labels[corev1.LabelHostname] = "ghost", "ghost"
	w.env.Register(w.t, ghost)
	w.env.SetReady(w.t, ghost.Name, corev1.ConditionUnknown)
	w.patch(ghost, map[string]string{nodelifecycle.AnnotationAllowDeletion: "true"})
	w.gone(ghost, 20*time.Second)
}

func protectedWaits(w *world) {
	svc := w.service("guarded", func(svc *corev1.Service) { svc.Annotations[annotation+"deletion-protection"] = "true" })
	w.published(svc)
	if err := w.client.Delete(w.t.Context(), svc); err != nil {
		w.t.Fatal(err)
	}
	const remedy = "set the annotation " + annotation + "deletion-protection to false"
	w.condition(svc, metav1.ConditionFalse, "DeletionProtected", remedy)
	w.event(svc, remedy)
	w.balancer(svc, "protected load balancer", func(lb cloudv1.LoadBalancer) bool { return lb.DeletionProtection })
	w.patch(svc, map[string]string{annotation + "deletion-protection": "false"})
	w.gone(svc, soon)
	if left, err := w.balancers(w.t.Context(), svc); err != nil || len(left) != 0 {
		w.t.Errorf("%d load balancers are left, %v", len(left), err)
	}
}

func deletedService(w *world) {
	for _, name := range []string{"web", "after", "crash"} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
		if err := w.client.Delete(w.t.Context(), svc); err != nil {
			w.t.Fatal(err)
		}
		w.gone(svc, soon)
	}
	list, err := w.cloud.Client.ListLoadBalancers(w.t.Context(), cloudapi.ListOptions{})
	if err != nil || len(list.Items) != 0 {
		w.t.Errorf("load balancers are left: %v, %v", list, err)
	}
}
