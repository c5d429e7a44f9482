package policy_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/controllers/policy"
	engine "quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/policies"
)

const maxQPS = "service.beta.kubernetes.io/dlb-listener-maxqps"

// cluster holds policies and namespaces and stores the status of policies.
type cluster struct {
	*policies.Cluster

	writes map[engine.Key]int
	// latest are the versions that the last writes created.
	latest map[engine.Key]string
	// deaf hides new statuses from the watch.
	deaf bool
	// failure is the error of writes.
	failure error
}

func (c *cluster) Candidates(namespace string) []*engine.Policy {
	return slices.DeleteFunc(c.Policies(), func(p *engine.Policy) bool {
		return p.Key().Namespace != "" && p.Key().Namespace != namespace
	})
}

func (c *cluster) Excluded(p *engine.Policy) (string, bool) {
	all := c.Policies()
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return p.Excluded(all, c.Namespaces)
}

func (c *cluster) ApplyStatus(_ context.Context, key engine.Key, version string, status v1alpha1.PolicyStatus) (string, error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.writes[key]++
	if c.failure != nil {
		return "", c.failure
	}
	e := c.Entries[key]
	if last := c.latest[key]; version != e.ResourceVersion && version != last {
		return "", apierrors.NewConflict(schema.GroupResource{}, key.Name, fmt.Errorf("version %s", version))
	}
	c.Version++
	c.latest[key] = strconv.Itoa(c.Version)
	if !c.deaf {
		seen := *e
		seen.Status, seen.ResourceVersion = status, strconv.Itoa(c.Version)
		c.Entries[key] = &seen
		defer c.Subscriber.PolicyChanged(key)
	}
	return strconv.Itoa(c.Version), nil
}

func (c *cluster) delete(key engine.Key) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	delete(c.Entries, key)
	c.Subscriber.PolicyChanged(key)
}

// limit returns a policy for all namespaces with a label, or for all namespaces if that is empty.
func limit(name, tier string, most int32) *v1alpha1.ClusterLoadBalancerPolicy {
	p := &v1alpha1.ClusterLoadBalancerPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if tier != "" {
		p.Spec.NamespaceSelector.MatchLabels = map[string]string{"tier": tier}
	}
	p.Spec.Rules = []v1alpha1.Rule{{Annotation: maxQPS, Max: new(intstr.FromInt32(most))}}
	return p
}

func service(namespace, name, qps string, options ...builder.ServiceOption) *corev1.Service {
	svc := builder.Service(append([]builder.ServiceOption{builder.DLB("listener-maxqps", qps)}, options...)...)
	svc.Namespace, svc.Name, svc.UID = namespace, name, types.UID("uid-"+name)
	return svc
}

// fixture is a Controller in a synctest bubble.
type fixture struct {
	t *testing.T
	*cluster
	services *fcache.FakeControllerSource
	events   *record.FakeRecorder
	registry *prometheus.Registry
}

// informer is an informer of Services.
type informer struct{ cache.SharedIndexInformer }

func (i informer) Informer() cache.SharedIndexInformer { return i.SharedIndexInformer }
func (i informer) Lister() corelisters.ServiceLister {
	return corelisters.NewServiceLister(i.GetIndexer())
}

// start runs a Controller with the policies and Services.
func start(t *testing.T, limits []*v1alpha1.ClusterLoadBalancerPolicy, existing ...*corev1.Service) *fixture {
	t.Helper()
	f := &fixture{
		t: t, services: fcache.NewFakeControllerSource(), events: record.NewFakeRecorder(100), registry: prometheus.NewRegistry(),
		cluster: &cluster{
			Cluster: policies.New(map[string]map[string]string{"shop": {"tier": "edge"}, "lab": nil}),
			writes:  map[engine.Key]int{}, latest: map[engine.Key]string{},
		},
	}
	for _, p := range limits {
		f.Put(p)
	}
	for _, svc := range existing {
		f.services.Add(svc)
	}
	services := informer{cache.NewSharedIndexInformer(f.services, &corev1.Service{}, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
	c, err := policy.New(policy.Options{
		Services: services, Store: f.cluster, Status: f.cluster,
		Reviewer: review.Own("mycloud.io/dlb", true),
		Recorder: f.events, Registerer: f.registry,
	})
	if err != nil {
		t.Fatal(err)
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
	f.settle()
	return f
}

// settle waits until everything is written.
func (f *fixture) settle() {
	time.Sleep(3 * time.Second)
	synctest.Wait()
}

// status returns the status of a policy.
func (f *fixture) status(key engine.Key) v1alpha1.PolicyStatus {
	f.t.Helper()
	e, ok := f.Entry(key)
	if !ok {
		f.t.Fatalf("no policy %v", key)
	}
	return e.Status
}

// sums returns services, violating and maxQPS in short form.
func (f *fixture) sums(key engine.Key) string {
	s := f.status(key)
	return fmt.Sprintf("%d services, %d violating, %d qps", s.Services, s.Violating, s.MaxQPS)
}

func (f *fixture) wrote(key engine.Key) int {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return f.writes[key]
}

// recorded returns the Events since the last call.
func (f *fixture) recorded() []string {
	var events []string
	for {
		select {
		case event := <-f.events.Events:
			events = append(events, event)
		default:
			return events
		}
	}
}

// metrics returns the lines of the metric without its name.
func (f *fixture) metrics() string {
	f.t.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	var lines []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			lines = append(lines, fmt.Sprintf("%s %v", strings.Join(labels, " "), m.GetGauge().GetValue()))
		}
	}
	return strings.Join(lines, "; ")
}

func shared() engine.Key {
	return engine.Key{Kind: v1alpha1.KindClusterLoadBalancerPolicy, Name: "shared"}
}

func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, []*v1alpha1.ClusterLoadBalancerPolicy{limit("shared", "edge", 2000)},
			service("shop", "web", "3000"), service("shop", "api", "1000"), service("shop", "inner", "9000", builder.Spec(func(s *corev1.ServiceSpec) {
				s.Type = corev1.ServiceTypeClusterIP
			})),
			service("shop", "other", "9000", builder.Class("example.com/lb")), service("lab", "web", "9000"))
		now := metav1.Now().Add(-2 * time.Second)
		want := v1alpha1.PolicyStatus{
			ObservedGeneration: 1, Services: 3, Violating: 1, MaxQPS: 4000,
			Conditions: []metav1.Condition{
				{Type: "Accepted", Status: "True", Reason: "Accepted", Message: "every part of the policy applies", ObservedGeneration: 1},
				{Type: "Compliant", Status: "False", Reason: "Violations", Message: "1 of 3 Services break a rule", ObservedGeneration: 1},
			},
			Violations: []v1alpha1.Violation{{
				Namespace: "shop", Name: "web", Field: "metadata.annotations[" + maxQPS + "]", Value: "3000",
				Message: `exceeds the maximum of 2000 set by ClusterLoadBalancerPolicy "shared" (tcp/80); lower the value`,
			}},
		}
		got := f.status(shared())
		if diff := cmp.Diff(want, got, cmpopts.IgnoreTypes(metav1.Time{})); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
		for _, c := range got.Conditions {
			if c.LastTransitionTime.Time.Before(now.Add(-2*time.Second)) || c.LastTransitionTime.Nanosecond() != 0 {
				t.Errorf("condition %s changed at %v", c.Type, c.LastTransitionTime)
			}
		}
		const event = "Warning Violations 1 of 3 Services break a rule: shop/web: metadata.annotations[" + maxQPS +
			`]: exceeds the maximum of 2000 set by ClusterLoadBalancerPolicy "shared" (tcp/80); lower the value`
		if diff := cmp.Diff([]string{event}, f.recorded()); diff != "" {
			t.Errorf("Events (-want +got):\n%s", diff)
		}
		if got := f.metrics(); got != "ClusterLoadBalancerPolicy shop shared 1" {
			t.Errorf("metrics: %s", got)
		}
		if got := f.wrote(shared()); got != 1 {
			t.Errorf("wrote %d times", got)
		}
	})
}

// Every kind of change reaches the status, and an unchanged condition keeps its transition time.
func TestStatusFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, []*v1alpha1.ClusterLoadBalancerPolicy{limit("shared", "edge", 2000)}, service("shop", "web", "3000"), service("lab", "web", "9000"))
		began := f.status(shared()).Conditions
		f.recorded()
		for _, step := range []struct {
			what    string
			do      func()
			sums    string
			events  int
			metrics string
		}{
			{"another Service", func() { f.services.Add(service("shop", "api", "1000")) }, "2 services, 1 violating, 4000 qps", 0, "ClusterLoadBalancerPolicy shop shared 1"},
			{"a second bad one", func() { f.services.Modify(service("shop", "api", "2001")) }, "2 services, 2 violating, 5001 qps", 1, "ClusterLoadBalancerPolicy shop shared 2"},
			{"a namespace joins", func() { f.Label("lab", map[string]string{"tier": "edge"}) }, "3 services, 3 violating, 14001 qps", 1,
				"ClusterLoadBalancerPolicy lab shared 1; ClusterLoadBalancerPolicy shop shared 2"},
			{"a looser rule", func() { f.Put(limit("shared", "edge", 4000)) }, "3 services, 1 violating, 14001 qps", 0, "ClusterLoadBalancerPolicy lab shared 1"},
			{"another policy", func() { f.Put(limit("later", "", 1)) }, "3 services, 1 violating, 14001 qps", 1,
				"ClusterLoadBalancerPolicy lab later 1; ClusterLoadBalancerPolicy lab shared 1; ClusterLoadBalancerPolicy shop later 2"},
			{"which goes again", func() { f.delete(engine.Key{Kind: v1alpha1.KindClusterLoadBalancerPolicy, Name: "later"}) },
				"3 services, 1 violating, 14001 qps", 0, "ClusterLoadBalancerPolicy lab shared 1"},
			{"no load balancer any more", func() {
				f.services.Modify(service("shop", "api", "2001", builder.Spec(func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort })))
			}, "2 services, 1 violating, 12000 qps", 0, "ClusterLoadBalancerPolicy lab shared 1"},
			{"the bad one goes", func() { f.services.Delete(service("lab", "web", "9000")) }, "1 services, 0 violating, 3000 qps", 1, ""},
			{"the namespace leaves", func() { f.Label("shop", nil) }, "0 services, 0 violating, 0 qps", 0, ""},
		} {
			step.do()
			f.settle()
			if got := f.sums(shared()); got != step.sums {
				t.Errorf("%s: %s, want %s", step.what, got, step.sums)
			}
			if events := f.recorded(); len(events) != step.events {
				t.Errorf("%s: Events %q, want %d", step.what, events, step.events)
			}
			if got := f.metrics(); got != step.metrics {
				t.Errorf("%s: metrics %q, want %q", step.what, got, step.metrics)
			}
		}
		ended := f.status(shared()).Conditions
		if began[0].LastTransitionTime != ended[0].LastTransitionTime || ended[0].ObservedGeneration != 2 {
			t.Errorf("Accepted was %+v, is %+v", began[0], ended[0])
		}
		if began[1].LastTransitionTime == ended[1].LastTransitionTime || ended[1].Status != metav1.ConditionTrue {
			t.Errorf("Compliant was %+v, is %+v", began[1], ended[1])
		}
	})
}

func TestInvalidPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := limit("shared", "edge", 2000)
		p.Spec.Defaults = map[string]string{maxQPS: "3000"}
		f := start(t, []*v1alpha1.ClusterLoadBalancerPolicy{p})
		got := f.status(shared())
		want := metav1.Condition{
			Type: "Accepted", Status: "False", Reason: "Invalid", ObservedGeneration: 1,
			Message: "the policy applies except for its invalid parts: spec.defaults[" + maxQPS +
				`]: Invalid value: "3000": exceeds the maximum of 2000 set by spec.rules[0].max; change the default or the rule; a rule with an invalid part refuses every value`,
		}
		if diff := cmp.Diff(want, got.Conditions[0], cmpopts.IgnoreTypes(metav1.Time{})); diff != "" {
			t.Errorf("condition (-want +got):\n%s", diff)
		}
	})
}

// Of very many policies of a namespace, the last ones do not apply, and say so until others are deleted.
func TestTooManyPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		most := shared().MaxApplied()
		var all []*v1alpha1.ClusterLoadBalancerPolicy
		for i := range most + 1 {
			all = append(all, limit(fmt.Sprintf("limit-%03d", i), "edge", 2000))
		}
		f := start(t, all)
		key := func(i int) engine.Key {
			return engine.Key{Kind: v1alpha1.KindClusterLoadBalancerPolicy, Name: all[i].Name}
		}
		accepted := func(i int) metav1.Condition { return f.status(key(i)).Conditions[0] }
		if first := accepted(0); first.Status != metav1.ConditionTrue {
			t.Errorf("the first policy: %+v", first)
		}
		last := accepted(most)
		if last.Status != metav1.ConditionFalse || last.Reason != "TooManyPolicies" || !strings.Contains(last.Message, `namespace "`) {
			t.Errorf("the last policy: %+v", last)
		}
		f.cluster.delete(key(3))
		f.settle()
		if last := accepted(most); last.Status != metav1.ConditionTrue {
			t.Errorf("the last policy after another was deleted: %+v", last)
		}
	})
}

// A policy that is too large is inactive, refuses every Service, and says so until it is shortened.
func TestTooLargePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := limit("shared", "edge", 2000)
		for i := range 60 {
			large.Spec.Rules = append(large.Spec.Rules,
				v1alpha1.Rule{Annotation: fmt.Sprintf("example.com/%d", i), Pattern: "^a{1000}a{990}$"})
		}
		f := start(t, []*v1alpha1.ClusterLoadBalancerPolicy{large}, service("shop", "web", "5"), service("lab", "web", "5"))
		accepted := f.status(shared()).Conditions[0]
		const message = `the policy is inactive and refuses every load balancer of namespace "shop", because the policies of kind ` +
			"ClusterLoadBalancerPolicy that apply to it are too large in all; shorten it, or delete others"
		if accepted.Status != metav1.ConditionFalse || accepted.Reason != "TooLarge" || accepted.Message != message {
			t.Errorf("condition %+v", accepted)
		}
		if got := f.sums(shared()); got != "1 services, 1 violating, 5 qps" {
			t.Error(got)
		}
		f.Put(limit("shared", "edge", 2000))
		f.settle()
		if accepted := f.status(shared()).Conditions[0]; accepted.Status != metav1.ConditionTrue {
			t.Errorf("shortened: %+v", accepted)
		}
		if got := f.sums(shared()); got != "1 services, 0 violating, 5 qps" {
			t.Error(got)
		}
	})
}

// A thousand Services that change within three seconds cause one status per second, not one per Service.
func TestWritesAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, []*v1alpha1.ClusterLoadBalancerPolicy{limit("shared", "edge", 2000)})
		before := f.wrote(shared())
		for i := range 1000 {
			f.services.Add(service("shop", fmt.Sprintf("web-%03d", i), "3000"))
			time.Sleep(3 * time.Millisecond)
		}
		f.settle()
		if got := f.wrote(shared()) - before; got > 5 {
			t.Errorf("wrote %d times", got)
		}
		status := f.status(shared())
		if got := f.sums(shared()); got != "1000 services, 1000 violating, 3000000 qps" {
			t.Error(got)
		}
		var names []string
		for _, v := range status.Violations {
			names = append(names, v.Name)
		}
		want := []string{"web-000", "web-001", "web-002", "web-003", "web-004", "web-005", "web-006", "web-007", "web-008", "web-009"}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("violations (-want +got):\n%s", diff)
		}
		if events := f.recorded(); len(events) > 5 {
			t.Errorf("%d Events", len(events))
		}
		// Changes that do not affect the policy.
		before = f.wrote(shared())
		for i := range 100 {
			f.services.Modify(service("shop", fmt.Sprintf("web-%03d", i), "3000", builder.Annotation("team", "a")))
		}
		f.Label("shop", map[string]string{"tier": "edge", "team": "a"})
		f.settle()
		if got := f.wrote(shared()) - before; got != 0 {
			t.Errorf("wrote %d times about nothing", got)
		}
	})
}

// A written status counts as current although the watch has not delivered it yet.
func TestStaleStoreCausesNoWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil, service("shop", "web", "3000"))
		f.Mu.Lock()
		f.deaf = true
		f.Mu.Unlock()
		key := f.Put(limit("shared", "edge", 2000))
		f.settle()
		for range 5 {
			f.Subscriber.PolicyChanged(key)
			f.settle()
		}
		if got := f.wrote(key); got != 1 {
			t.Errorf("wrote %d times", got)
		}
		f.services.Add(service("shop", "api", "1000"))
		f.settle()
		if got := f.wrote(key); got != 2 {
			t.Errorf("wrote %d times, want another for another Service", got)
		}
		if events := f.recorded(); len(events) != 1 {
			t.Errorf("Events %q", events)
		}
	})
}

// A status that others overwrite is restored.
func TestForeignStatusIsMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, []*v1alpha1.ClusterLoadBalancerPolicy{limit("shared", "edge", 2000)}, service("shop", "web", "1000"))
		f.Mu.Lock()
		f.Version++
		spoilt := *f.Entries[shared()]
		spoilt.Status, spoilt.ResourceVersion = v1alpha1.PolicyStatus{Violating: 7}, strconv.Itoa(f.Version)
		f.Entries[shared()] = &spoilt
		f.Mu.Unlock()
		f.Subscriber.PolicyChanged(shared())
		f.settle()
		if got := f.sums(shared()); got != "1 services, 0 violating, 1000 qps" {
			t.Error(got)
		}
	})
}

func TestFailedWrites(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{}, "shared")
	conflict := apierrors.NewConflict(schema.GroupResource{}, "shared", errors.New("uid"))
	for name, test := range map[string]struct {
		failure     error
		least, most int
		recovers    bool
	}{
		"outage":   {errors.New("timeout"), 5, 10, true},
		"conflict": {conflict, 5, 10, true},
		"gone":     {gone, 1, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, nil, service("shop", "web", "1000"))
				f.Mu.Lock()
				f.failure = test.failure
				f.Mu.Unlock()
				key := f.Put(limit("shared", "edge", 2000))
				time.Sleep(2 * time.Minute)
				if got := f.wrote(key); got < test.least || got > test.most {
					t.Errorf("tried %d times in two minutes", got)
				}
				f.Mu.Lock()
				f.failure = nil
				f.Mu.Unlock()
				time.Sleep(2 * time.Minute)
				if got := f.status(key).Services == 1; got != test.recovers {
					t.Errorf("written: %t", got)
				}
			})
		})
	}
}
