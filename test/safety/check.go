package safety

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/orphans"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/providerid"
	"quaymaster.dev/provider/teardown"
)

const (
	// foreignFinalizer is the finalizer of another controller.
	foreignFinalizer = "example.com/keep"
	// sharedFinalizer is what other controllers of load balancers put on Services of their classes.
	sharedFinalizer = servicehelpers.LoadBalancerCleanupFinalizer
)

// protected reports whether a Service has the finalizer of the controllers.
func protected(svc *corev1.Service) bool {
	return slices.Contains(svc.Finalizers, service.Finalizer(ownClass))
}

// violation records a broken promise.
func (w *world) violation(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf("%s cluster %s %s: %s",
		time.Now().UTC().Format(time.TimeOnly), w.clusterID, w.authority, fmt.Sprintf(format, args...)))
}

// checkChange runs after every write to the API server.
func (w *world) checkChange(before, after runtime.Object) {
	switch o := changed(before, after).(type) {
	case *corev1.Service:
		was, _ := before.(*corev1.Service)
		is, _ := after.(*corev1.Service)
		w.checkService(was, is)
	case *corev1.Node:
		if after == nil {
			w.mu.Lock()
			w.deleted = append(w.deleted, deletion{name: o.Name, providerID: o.Spec.ProviderID, at: time.Now()})
			w.mu.Unlock()
			if !w.ledger.deletedMachine(o.Spec.ProviderID) {
				w.violation("node %s is deleted, its machine %s is not", o.Name, o.Spec.ProviderID)
			}
		}
	}
}

func changed(before, after runtime.Object) runtime.Object {
	if after == nil {
		return before
	}
	return after
}

func (w *world) checkService(was, is *corev1.Service) {
	if is == nil {
		w.mu.Lock()
		delete(w.services, was.UID)
		w.mu.Unlock()
		return
	}
	var old []string
	if was != nil {
		old = addresses(was)
		lost := func(finalizer string) bool {
			return slices.Contains(was.Finalizers, finalizer) && !slices.Contains(is.Finalizers, finalizer)
		}
		theirs := is.Spec.LoadBalancerClass != nil && !ours(is) && is.DeletionTimestamp == nil
		if lost(foreignFinalizer) || theirs && lost(sharedFinalizer) {
			w.violation("%s lost the finalizer of another controller: it has %v, and had %v", is.Name, is.Finalizers, was.Finalizers)
		}
	}
	now := addresses(is)
	w.mu.Lock()
	// A Service that was no load balancer of ours for a while has given up its address.
	given, published := w.given[is.UID], w.published[is.UID]
	w.given[is.UID] = !ours(is) || given && (len(now) == 0 || slices.Equal(old, now))
	w.services[is.UID] = is
	if len(now) > 0 {
		w.published[is.UID] = now
	}
	w.mu.Unlock()
	if len(now) == 0 && len(old) > 0 && !given && ours(is) && is.DeletionTimestamp == nil {
		w.violation("%s no longer publishes %v", is.Name, old)
	}
	if len(now) == 0 || slices.Equal(old, now) {
		return
	}
	// A copy has no load balancers: it publishes what the cluster has that it is a copy of.
	if !w.copied && !given && len(published) > 0 && !slices.Equal(published, now) && !w.ledger.taken(published, is.UID) {
		w.violation("the published address of %s changed from %v to %v", is.Name, published, now)
	}
	w.ledger.checkPublication(w, is, now)
	if len(old) == 0 {
		if is.Annotations[service.AnnotationRecord] == "" {
			w.violation("%s publishes %v before its load balancer is recorded", is.Name, now)
		}
		if !protected(is) {
			w.violation("%s publishes %v without a finalizer", is.Name, now)
		}
	}
}

func addresses(svc *corev1.Service) []string {
	var list []string
	for _, ingress := range svc.Status.LoadBalancer.Ingress {
		list = append(list, ingress.IP+ingress.Hostname)
	}
	return list
}

// deletion is a Node that was deleted.
type deletion struct {
	name, providerID string
	at               time.Time
}

// checkSettled checks what must hold once the controllers have finished their work.
func (w *world) checkSettled() {
	w.t.Helper()
	w.checkBalancers()
	if w.checkOrphans() {
		// Now nothing is in the way of other Services any more.
		time.Sleep(settled)
		w.checkBalancers()
	}
	w.checkNodes()
	w.checkGroups()
}

func (w *world) checkBalancers() {
	w.t.Helper()
	list, err := w.cloud.ListLoadBalancers(w.t.Context(), cloudapi.ListOptions{Tags: map[string]string{ownership.ClusterUID: w.uid}})
	if err != nil {
		w.t.Fatal(err)
	}
	of := map[string]cloudv1.LoadBalancer{}
	for _, lb := range list.Items {
		of[lb.Tags[ownership.ServiceUID]] = lb
	}
	services, err := w.api.CoreV1().Services(metav1.NamespaceAll).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range services.Items {
		svc := &services.Items[i]
		lb, exists := of[string(svc.UID)]
		delete(of, string(svc.UID))
		switch {
		case svc.DeletionTimestamp != nil && !slices.Contains(svc.Finalizers, foreignFinalizer):
			w.violation("%s is still being deleted: finalizers %v, conditions %+v", svc.Name, svc.Finalizers, svc.Status.Conditions)
		case !ours(svc) || svc.DeletionTimestamp != nil:
			if exists && !w.ledger.mayStay(svc.UID) {
				w.violation("%s still has load balancer %s", svc.Name, lb.ID)
			}
			if protected(svc) {
				w.violation("%s keeps the finalizer without a load balancer: %v, %+v", svc.Name, svc.Annotations, svc.Status.Conditions)
			}
		case !exists && w.blocked(list.Items, svc):
			// An operator has to decide: see checkOrphans.
		case !exists:
			w.violation("%s has no load balancer: %+v", svc.Name, svc.Status)
		default:
			w.checkPublished(svc, lb)
		}
	}
	for uid, lb := range of {
		if w.ledger.mayStay(types.UID(uid)) {
			continue
		}
		w.violation("load balancer %s leaked: there is no service %s", lb.ID, uid)
	}
}

// blocked reports whether load balancers that a restore has left behind are in the way of that of a Service: they have
// both of its possible names, or one has a name of it and the address that it publishes, and so may be its own without its
// tags.
func (w *world) blocked(all []cloudv1.LoadBalancer, svc *corev1.Service) bool {
	name, names := fmt.Sprintf("%s-%s-%s", w.clusterID, svc.Namespace, svc.Name), 0
	for i := range all {
		lb := &all[i]
		if lb.Name != name && !strings.HasPrefix(lb.Name, name+"-") || !w.ledger.mayStay(types.UID(lb.Tags[ownership.ServiceUID])) {
			continue
		}
		names++
		if names == 2 || slices.Equal(lb.Addresses(), addresses(svc)) {
			return true
		}
	}
	return false
}

// checkOrphans checks that the load balancers of lost Services are reported. As an operator does, it gives those whose
// addresses are published to the Services that publish them, and deletes the others. It reports whether there were any.
func (w *world) checkOrphans() bool {
	w.t.Helper()
	found := w.listOrphans()
	if reported := w.reportedOrphans(); reported != len(found) {
		w.violation("%d load balancers without a Service are reported, there are %d", reported, len(found))
	}
	var unused []orphans.Orphan
	for _, orphan := range found {
		if orphan.Publisher == nil {
			unused = append(unused, orphan)
			continue
		}
		w.tag(orphan.LoadBalancer, orphan.Publisher)
	}
	plan := orphans.Plan(unused)
	for i, err := range teardown.Execute(w.t.Context(), w.cloud, plan) {
		if err != nil {
			w.violation("load balancer %s without a Service cannot be deleted: %v", plan[i].ID, err)
		}
	}
	if left := w.listOrphans(); len(left) > 0 {
		w.violation("%d load balancers without a Service are left", len(left))
	}
	return len(found) > 0
}

// tag gives a load balancer to a Service, as an operator does.
func (w *world) tag(lb *cloudv1.LoadBalancer, svc *corev1.Service) {
	w.t.Helper()
	uid := string(svc.UID)
	_, _, err := w.cloud.PatchLoadBalancer(w.t.Context(), lb.ID,
		cloudv1.LoadBalancerPatch{Tags: map[string]*string{ownership.ServiceUID: &uid}}, cloudapi.WriteOptions{IfMatch: lb.Revision})
	w.must(err)
}

func (w *world) listOrphans() []orphans.Orphan {
	w.t.Helper()
	found, err := orphans.List(w.t.Context(), w.cloud, w.api.CoreV1(), w.uid, ours)
	w.must(err)
	return found
}

// reportedOrphans returns the sum of the metric.
func (w *world) reportedOrphans() int {
	w.t.Helper()
	registry, sum := prometheus.NewRegistry(), 0.0
	w.must(registry.Register(w.orphans))
	families, err := registry.Gather()
	w.must(err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			sum += metric.GetGauge().GetValue()
		}
	}
	return int(sum)
}

// ours reports whether the Service asks for a load balancer of ours.
func ours(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		(svc.Spec.LoadBalancerClass == nil || *svc.Spec.LoadBalancerClass == ownClass)
}

func (w *world) checkPublished(svc *corev1.Service, lb cloudv1.LoadBalancer) {
	var want []string
	for _, vip := range lb.VIPs {
		want = append(want, vip.Address)
	}
	if got := addresses(svc); !slices.Equal(got, want) {
		w.violation("%s publishes %v, its load balancer %s has %v", svc.Name, got, lb.ID, want)
	}
	if !protected(svc) {
		w.violation("%s has no finalizer", svc.Name)
	}
	if !strings.Contains(svc.Annotations[service.AnnotationRecord], lb.ID) {
		w.violation("%s does not record %s: %q", svc.Name, lb.ID, svc.Annotations[service.AnnotationRecord])
	}
	if qps := svc.Annotations[annotation+"listener-maxqps"]; qps != "" && fmt.Sprint(lb.Listeners[0].MaxQPS) != qps {
		w.violation("%s asks for %s queries per second, its load balancer has %d", svc.Name, qps, lb.Listeners[0].MaxQPS)
	}
}

// checkNodes checks that exactly the Nodes without a machine are gone, and no more of them at a time than allowed.
func (w *world) checkNodes() {
	w.t.Helper()
	w.mu.Lock()
	deleted := slices.DeleteFunc(slices.Clone(w.deleted), func(d deletion) bool {
		return !w.resumed.IsZero() && d.at.After(w.resumed)
	})
	w.mu.Unlock()
	nodes, err := w.api.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	running := w.runningMachines()
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if node.Spec.ProviderID == "" && running[node.Name] {
			w.violation("node %s is not initialized", node.Name)
		}
	}
	budget := max(1, (len(nodes.Items)+len(deleted))/20)
	for i := range deleted {
		if end := i + budget; end < len(deleted) && deleted[end].at.Sub(deleted[i].at) < 10*time.Minute {
			w.violation("more than %d nodes were deleted within 10 minutes of %s", budget, deleted[i].at)
		}
	}
}

// checkGroups checks that every group exists once and has the Nodes. Without any Node, it keeps those members whose
// machines are not deleted.
func (w *world) checkGroups() {
	w.t.Helper()
	list, err := w.cloud.ListNodeGroups(w.t.Context(), cloudapi.ListOptions{Tags: map[string]string{ownership.ClusterUID: w.uid}})
	if err != nil {
		w.t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, group := range list.Items {
		name := group.Tags[ownership.IngressGroup]
		if seen[name] {
			w.violation("there are two groups %q", name)
		}
		seen[name] = true
		members := map[string]bool{}
		for _, m := range group.Members {
			members[providerid.Format(m.InstanceID)] = true
		}
		nodes, err := w.api.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		want := map[string]bool{}
		for _, node := range nodes.Items {
			if node.Spec.ProviderID != "" {
				want[node.Spec.ProviderID] = true
			}
		}
		if len(want) == 0 {
			maps.DeleteFunc(members, func(id string, _ bool) bool { return !w.ledger.deletedMachine(id) })
		}
		if !maps.Equal(members, want) {
			w.violation("group %q has %v, the nodes are %v", name, slices.Sorted(maps.Keys(members)), slices.Sorted(maps.Keys(want)))
		}
	}
}
