package audit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/klog/v2"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/controllers/audit"
	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/policies"
)

const hcloudKey = "load-balancer.hetzner.cloud/algorithm-type"

// cluster holds policies and namespaces.
type cluster struct {
	*policies.Cluster

	// failure is the error of reading policies.
	failure error
	reviews int
}

func (c *cluster) Applicable(_ context.Context, namespace string) ([]*policy.Policy, error) {
	all := c.Policies()
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.reviews++
	return policy.Applicable(all, namespace, c.Namespaces[namespace]), c.failure
}

func (c *cluster) fail(err error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.failure = err
}

// reviewed returns how many Services were reviewed since the last call.
func (c *cluster) reviewed() int {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	defer func() { c.reviews = 0 }()
	return c.reviews
}

type informer struct{ cache.SharedIndexInformer }

func (i informer) Informer() cache.SharedIndexInformer { return i.SharedIndexInformer }
func (i informer) Lister() corelisters.ServiceLister {
	return corelisters.NewServiceLister(i.GetIndexer())
}

// fixture is a Controller in a synctest bubble, for the catalogs mycloud and hcloud.
type fixture struct {
	t *testing.T
	*cluster
	services *fcache.FakeControllerSource
	api      *fake.Clientset
	registry *prometheus.Registry
}

// start runs a Controller with Services. The service controller reports those of the class mycloud.io/dlb.
func start(t *testing.T, existing ...*corev1.Service) *fixture {
	t.Helper()
	f := &fixture{
		t: t, services: fcache.NewFakeControllerSource(), api: fake.NewClientset(), registry: prometheus.NewRegistry(),
		cluster: &cluster{Cluster: policies.New(map[string]map[string]string{"exempt": {"unchecked": "true"}})},
	}
	for _, svc := range existing {
		f.services.Add(svc)
	}
	services := informer{cache.NewSharedIndexInformer(f.services, &corev1.Service{}, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
	reviewer, err := review.New(catalog.Options{Catalogs: []string{"mycloud", "hcloud"}, Class: "mycloud.io/dlb", DefaultClass: true})
	if err != nil {
		t.Fatal(err)
	}
	selector, err := labels.Parse("unchecked!=true")
	if err != nil {
		t.Fatal(err)
	}
	c := audit.New(audit.Options{
		Services: services, Policies: f.cluster, Reviewer: reviewer, Namespaces: selector, Events: f.api.CoreV1(),
		Reported: func(svc *corev1.Service, _ []finding.Finding) bool { return svc.Spec.LoadBalancerClass != nil },
	})
	if err := f.registry.Register(c.Metrics()); err != nil {
		t.Fatal(err)
	}
	if got := f.metrics(); got != "" {
		t.Errorf("metrics before Run: %s", got)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	var running sync.WaitGroup
	running.Go(func() { services.RunWithContext(ctx) })
	running.Go(func() { c.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		f.services.Shutdown()
	})
	f.settle(time.Second)
	return f
}

func (f *fixture) settle(after time.Duration) {
	time.Sleep(after)
	synctest.Wait()
}

// events returns the Events that exist, as namespace, object and message.
func (f *fixture) events() []string {
	f.t.Helper()
	list, err := f.api.CoreV1().Events("").List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	var found []string
	for i := range list.Items {
		e := &list.Items[i]
		found = append(found, fmt.Sprintf("%s %s/%s %s: %s", e.Reason, e.Namespace, e.InvolvedObject.Name, e.Type, e.Message))
	}
	slices.Sort(found)
	return found
}

// forget removes all Events, as API servers do after a while.
func (f *fixture) forget() {
	f.t.Helper()
	list, err := f.api.CoreV1().Events("").List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range list.Items {
		e := &list.Items[i]
		if err := f.api.CoreV1().Events(e.Namespace).Delete(f.t.Context(), e.Name, metav1.DeleteOptions{}); err != nil {
			f.t.Fatal(err)
		}
	}
}

// created returns how many calls tried to create an Event.
func (f *fixture) created() int {
	n := 0
	for _, action := range f.api.Actions() {
		if action.Matches("create", "events") {
			n++
		}
	}
	return n
}

// metrics returns the values of all metrics that are not 0, without the prefix of their names.
func (f *fixture) metrics() string {
	f.t.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	var found []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			text := strings.TrimPrefix(family.GetName(), "quaymaster_")
			for _, l := range m.GetLabel() {
				text += " " + l.GetValue()
			}
			if m.GetGauge().GetValue() != 0 {
				found = append(found, fmt.Sprintf("%s %v", text, m.GetGauge().GetValue()))
			}
		}
	}
	return strings.Join(found, ", ")
}

func (f *fixture) expect(metrics string, events ...string) {
	f.t.Helper()
	if got := f.metrics(); got != metrics {
		f.t.Errorf("metrics:\n%s, want\n%s", got, metrics)
	}
	if diff := cmp.Diff(events, f.events()); diff != "" {
		f.t.Errorf("Events (-want +got):\n%s", diff)
	}
}

// service returns a Service of hcloud.
func service(namespace, name, algorithm string, options ...builder.ServiceOption) *corev1.Service {
	svc := builder.Service(options...)
	svc.Namespace, svc.Name, svc.UID = namespace, name, types.UID("uid-"+name)
	if algorithm != "" {
		svc.Annotations = map[string]string{hcloudKey: algorithm, "load-balancer.hetzner.cloud/location": "fsn1"}
	}
	return svc
}

func event(namespace, name, algorithm string) string {
	return fmt.Sprintf("InvalidService %s/%s Warning: metadata.annotations[%s]: Unsupported value: %q: must be one of "+
		"round_robin, least_connections (in any case); for example least_connections", namespace, name, hcloudKey, algorithm)
}

// Services of every catalog are reviewed when they are stored, and reported once for the same errors.
func TestServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside := service("shop", "inside", "fastest", builder.Spec(func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeClusterIP }))
		f := start(t, service("shop", "old", "fastest"), service("shop", "good", "round_robin"), inside, service("exempt", "any", "fastest"),
			service("shop", "ours", "", builder.Class("mycloud.io/dlb"), builder.DLB("scheduler", "fastest")))
		f.expect("invalid_services hcloud 1, invalid_services mycloud 1, reviewed_services 3", event("shop", "old", "fastest"))

		f.services.Add(service("lab", "new", "slowest"))
		f.settle(time.Second)
		f.expect("invalid_services hcloud 2, invalid_services mycloud 1, reviewed_services 4",
			event("lab", "new", "slowest"), event("shop", "old", "fastest"))

		calls := f.created()
		again := service("lab", "new", "slowest")
		again.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
		f.services.Modify(again)
		f.services.Modify(service("shop", "good", "least_connections"))
		f.settle(time.Second)
		if got := f.created(); got != calls {
			t.Errorf("%d calls about Services without another error", got-calls)
		}

		f.services.Modify(service("lab", "new", "best"))
		f.services.Modify(service("shop", "old", "round_robin"))
		f.settle(time.Second)
		f.expect("invalid_services hcloud 1, invalid_services mycloud 1, reviewed_services 4",
			event("lab", "new", "best"), event("lab", "new", "slowest"), event("shop", "old", "fastest"))

		f.services.Delete(service("lab", "new", "best"))
		f.services.Delete(service("shop", "ours", ""))
		f.settle(time.Second)
		f.forget()
		f.expect("reviewed_services 2")
	})
}

// An object that stays invalid is reported again, and after a restart only once the API server has forgotten the Event.
func TestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, service("shop", "old", "fastest"))
		f.settle(2 * time.Hour)
		f.forget()
		f.expect("invalid_services hcloud 1, reviewed_services 1")
		f.settle(time.Hour + time.Second)
		f.expect("invalid_services hcloud 1, reviewed_services 1", event("shop", "old", "fastest"))
		f.settle(3 * time.Hour)
		f.expect("invalid_services hcloud 1, reviewed_services 1", event("shop", "old", "fastest"))
		if got := f.created(); got != 3 {
			t.Errorf("%d calls, want 3", got)
		}
	})
}

// Policies and the labels of namespaces decide by what Services are reviewed; invalid policies are reported themselves.
func TestPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, service("shop", "web", "round_robin"), service("lab", "web", "round_robin"))
		limit := &v1alpha1.ClusterLoadBalancerPolicy{ObjectMeta: metav1.ObjectMeta{Name: "limit"}}
		limit.Spec.NamespaceSelector.MatchLabels = map[string]string{"tier": "edge"}
		limit.Spec.Rules = []v1alpha1.Rule{{Annotation: hcloudKey, Forbidden: true}}
		f.Put(limit)
		f.settle(time.Second)
		f.expect("reviewed_services 2")
		f.Label("shop", map[string]string{"tier": "edge"})
		f.settle(time.Second)
		want := "InvalidService shop/web Warning: metadata.annotations[" + hcloudKey + `]: Forbidden: must not be set: forbidden by ` +
			`ClusterLoadBalancerPolicy "limit"; remove the key`
		f.expect("invalid_services none 1, reviewed_services 2", want)

		// A change of its status changes nothing.
		f.reviewed()
		f.Subscriber.PolicyChanged(policy.Key{Kind: v1alpha1.KindClusterLoadBalancerPolicy, Name: "limit"})
		f.settle(time.Second)
		if n := f.reviewed(); n > 0 {
			t.Errorf("%d Services were reviewed", n)
		}

		f.forget()
		limit.Spec.Rules = []v1alpha1.Rule{{Annotation: "example.com/team", Pattern: "("}}
		f.Put(limit)
		f.settle(time.Second)
		got := f.events()
		if len(got) != 1 || !strings.HasPrefix(got[0], "InvalidClusterLoadBalancerPolicy default/limit Warning: ") {
			t.Errorf("Events: %q", got)
		}
		if got := f.metrics(); got != "invalid_policies ClusterLoadBalancerPolicy 1, reviewed_services 2" {
			t.Errorf("metrics: %s", got)
		}
		f.Label("shop", map[string]string{"unchecked": "true"})
		f.settle(time.Second)
		if got := f.metrics(); got != "invalid_policies ClusterLoadBalancerPolicy 1, reviewed_services 1" {
			t.Errorf("metrics: %s", got)
		}
	})
}

// A namespace with very many invalid Services delays neither the review nor the Events of others, and Events are bounded.
func TestFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 20000
		var flood []*corev1.Service
		for i := range many {
			flood = append(flood, service("flood", fmt.Sprintf("s%d", i), "fastest"))
		}
		f := start(t, flood...)
		f.services.Add(service("lab", "victim", "fastest"))
		f.settle(time.Second)
		events := f.events()
		if !slices.Contains(events, event("lab", "victim", "fastest")) {
			t.Error("no Event about the victim after a second")
		}
		if n := len(events); n > 12 {
			t.Errorf("%d Events after two seconds", n)
		}
		if got, want := f.metrics(), fmt.Sprintf("invalid_services hcloud %d, reviewed_services %d", many+1, many+1); got != want {
			t.Errorf("metrics: %s, want %s", got, want)
		}
		f.settle(time.Minute)
		if n := len(f.events()); n < 200 || n > 260 {
			t.Errorf("%d Events after a minute", n)
		}
	})
}

// A namespace that takes no Events delays no other. What fails is tried again.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t)
		var accepting atomic.Bool
		f.api.PrependReactor("create", "events", func(a clienttesting.Action) (bool, runtime.Object, error) {
			return a.GetNamespace() == "full" && !accepting.Load(), nil, errors.New("exceeded quota")
		})
		f.services.Add(service("full", "web", "fastest"))
		f.settle(time.Second)
		f.fail(errors.New("not synced"))
		f.services.Add(service("lab", "web", "fastest"))
		f.settle(time.Second)
		f.expect("invalid_services hcloud 1, reviewed_services 1")
		f.fail(nil)
		f.settle(20 * time.Second)
		f.expect("invalid_services hcloud 2, reviewed_services 2", event("lab", "web", "fastest"))
		accepting.Store(true)
		f.settle(20 * time.Second)
		f.expect("invalid_services hcloud 2, reviewed_services 2", event("full", "web", "fastest"), event("lab", "web", "fastest"))
	})
}
