package policystore_test

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

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/klog/v2"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/kube/policystore"
	"quaymaster.dev/internal/rules/policy"
)

// The handlers of errors that nothing returns sleep by a clock that they keep from one bubble of synctest to the next.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = nil //nolint:reassign // this is what the variable is for
	m.Run()
}

// api is a fake API server for policies.
type api struct {
	mu       sync.Mutex
	absent   bool
	failure  error
	lists    atomic.Int64
	policies map[string]*fcache.FakeControllerSource
}

func newAPI() *api {
	return &api{policies: map[string]*fcache.FakeControllerSource{
		v1alpha1.KindLoadBalancerPolicy:        fcache.NewFakeControllerSource(),
		v1alpha1.KindClusterLoadBalancerPolicy: fcache.NewFakeControllerSource(),
	}}
}

func (*api) IsWatchListSemanticsUnSupported() bool { return true }

func (a *api) List(_ context.Context, kind string, options metav1.ListOptions) (runtime.Object, error) {
	a.lists.Add(1)
	if err := a.missing(); err != nil {
		return nil, err
	}
	return a.policies[kind].List(options)
}

func (a *api) Watch(_ context.Context, kind string, options metav1.ListOptions) (watch.Interface, error) {
	if err := a.missing(); err != nil {
		return nil, err
	}
	return a.policies[kind].Watch(options)
}

func (a *api) missing() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.absent {
		return apierrors.NewGenericServerResponse(404, "list", schema.GroupResource{}, "", "404 page not found", 0, true)
	}
	return a.failure
}

// install installs or removes the CRDs. Watches end when they are removed.
func (a *api) install(present bool) {
	a.mu.Lock()
	a.absent = !present
	a.mu.Unlock()
	if !present {
		for _, source := range a.policies {
			source.ResetWatch()
		}
	}
}

func (a *api) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failure = err
}

func (a *api) shutDown() {
	for _, source := range a.policies {
		source.Shutdown()
	}
}

// server is an API whose watches can be ended.
type server interface {
	policystore.API
	shutDown()
}

// fixture is a Store in a synctest bubble with fake time.
type fixture struct {
	*policystore.Store
	cluster *fake.Clientset

	mu      sync.Mutex
	lines   []string
	changes []string
}

// start runs a Store on the API and the objects.
func start(t *testing.T, a server, objects ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{cluster: fake.NewClientset(objects...)}
	f.Store = policystore.New(policystore.Options{API: a, Cluster: f.cluster, Status: true})
	f.Subscribe(f)
	logger := funcr.New(func(_, args string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.lines = append(f.lines, args)
	}, funcr.Options{})
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		a.shutDown()
	})
	synctest.Wait()
	return f
}

func (f *fixture) PolicyChanged(key policy.Key) {
	f.changed("policy " + key.Namespace + "/" + key.Name)
}
func (f *fixture) NamespaceChanged(name string) { f.changed("namespace " + name) }

func (f *fixture) changed(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes = append(f.changes, what)
}

// newChanges returns the changes since the last call.
func (f *fixture) newChanges() []string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	changes := f.changes
	f.changes = nil
	slices.Sort(changes)
	return changes
}

// countLogs counts the log lines that contain text.
func (f *fixture) countLogs(text string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, line := range f.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// applicable returns the names of the policies that apply.
func (f *fixture) applicable(t *testing.T, namespace string) []string {
	t.Helper()
	list, err := f.Applicable(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range list {
		names = append(names, p.Name())
	}
	return names
}

func namespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func lbpol(namespace, name string, change ...func(*v1alpha1.LoadBalancerPolicy)) *v1alpha1.LoadBalancerPolicy {
	p := &v1alpha1.LoadBalancerPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 1}}
	p.Spec.Defaults = map[string]string{"service.beta.kubernetes.io/dlb-listener-maxqps": "500"}
	for _, c := range change {
		c(p)
	}
	return p
}

func clbpol(name string, labels map[string]string) *v1alpha1.ClusterLoadBalancerPolicy {
	p := &v1alpha1.ClusterLoadBalancerPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}}
	p.Spec.NamespaceSelector.MatchLabels = labels
	p.Spec.Defaults = map[string]string{"service.beta.kubernetes.io/dlb-flavor": "large"}
	return p
}

func TestStoreFollowsTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		namespaced, cluster := a.policies[v1alpha1.KindLoadBalancerPolicy], a.policies[v1alpha1.KindClusterLoadBalancerPolicy]
		namespaced.Add(lbpol("shop", "limits"))
		cluster.Add(clbpol("edge", map[string]string{"tier": "edge"}))
		f := start(t, a, namespace("shop", map[string]string{"tier": "edge"}), namespace("lab", nil))
		if !f.HasSynced() {
			t.Fatal("has not synced")
		}
		expect := func(what, namespace string, want ...string) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, f.applicable(t, namespace)); diff != "" {
				t.Errorf("%s: policies of %s (-want +got):\n%s", what, namespace, diff)
			}
		}
		expect("at first", "shop", `LoadBalancerPolicy "limits"`, `ClusterLoadBalancerPolicy "edge"`)
		expect("at first", "lab")
		f.newChanges()

		if _, err := f.cluster.CoreV1().Namespaces().Update(
			t.Context(), namespace("lab", map[string]string{"tier": "edge"}), metav1.UpdateOptions{},
		); err != nil {
			t.Fatal(err)
		}
		expect("labeled", "lab", `ClusterLoadBalancerPolicy "edge"`)
		if diff := cmp.Diff([]string{"namespace lab"}, f.newChanges()); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}

		cluster.Delete(clbpol("edge", nil))
		expect("deleted", "lab")
		if diff := cmp.Diff([]string{"policy /edge"}, f.newChanges()); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
		others, namespaces, err := f.Others(
			policy.Key{Kind: v1alpha1.KindLoadBalancerPolicy, Namespace: "shop", Name: "limits"},
		)
		want := map[string]map[string]string{"shop": {"tier": "edge"}, "lab": {"tier": "edge"}}
		if diff := cmp.Diff(want, namespaces); diff != "" || len(others) != 0 || err != nil {
			t.Errorf("%d others, %v, namespaces (-want +got):\n%s", len(others), err, diff)
		}
	})
}

// The controllers write the status of policies often. That must not look like a new policy.
func TestStatusChangeDoesNotRecompile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		source := a.policies[v1alpha1.KindLoadBalancerPolicy]
		source.Add(lbpol("shop", "limits"))
		f := start(t, a, namespace("shop", nil))
		key := policy.Key{Kind: v1alpha1.KindLoadBalancerPolicy, Namespace: "shop", Name: "limits"}
		before, _ := f.Entry(key)

		source.Modify(lbpol("shop", "limits", func(p *v1alpha1.LoadBalancerPolicy) { p.Status.Services = 7 }))
		synctest.Wait()
		status, ok := f.Entry(key)
		if !ok || status.Policy != before.Policy || status.Status.Services != 7 ||
			status.ResourceVersion == before.ResourceVersion {
			t.Errorf("after a new status: %+v, before %+v", status, before)
		}

		source.Modify(lbpol("shop", "limits", func(p *v1alpha1.LoadBalancerPolicy) {
			p.Generation = 2
			p.Spec.Defaults["service.beta.kubernetes.io/dlb-schedular"] = "source-ip"
		}))
		synctest.Wait()
		spec, ok := f.Entry(key)
		if !ok || spec.Policy == before.Policy || spec.Generation != 2 || !strings.Contains(spec.Problems, "dlb-schedular") {
			t.Errorf("after a new spec: %+v", spec)
		}
		if got := f.Policies(); len(got) != 1 || got[0] != spec.Policy {
			t.Errorf("policies %v", got)
		}
	})
}

// A cluster without the CRDs has no policies, and that is not an error.
func TestStoreWithoutCRDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		a.install(false)
		f := start(t, a, namespace("shop", nil))
		time.Sleep(10 * time.Minute)
		if !f.HasSynced() || len(f.applicable(t, "shop")) != 0 {
			t.Error("a cluster without CRDs must be synced and have no policies")
		}
		if got, want := fmt.Sprint(f.InUse()), "the API server does not serve ClusterLoadBalancerPolicy and LoadBalancerPolicy"; got != want {
			t.Errorf("in use: %s, want %s", got, want)
		}
		if got := f.countLogs("Policy CRDs are not installed"); got != 1 {
			t.Errorf("logged %d times that there are none:\n%s", got, strings.Join(f.lines, "\n"))
		}
		if n := a.lists.Load(); n < 2*80 || n > 2*120 {
			t.Errorf("%d lists of two kinds in ten minutes, want about every six seconds", n)
		}

		a.policies[v1alpha1.KindLoadBalancerPolicy].Add(lbpol("shop", "limits"))
		a.install(true)
		time.Sleep(7 * time.Second)
		if diff := cmp.Diff([]string{`LoadBalancerPolicy "limits"`}, f.applicable(t, "shop")); diff != "" {
			t.Errorf("installed (-want +got):\n%s", diff)
		}
		if err := f.InUse(); err != nil {
			t.Errorf("installed: %v", err)
		}
		lists := a.lists.Load()
		time.Sleep(time.Hour)
		if a.lists.Load() != lists {
			t.Errorf("%d lists while the CRDs are watched", a.lists.Load()-lists)
		}
		f.newChanges()

		// One answer that the resource is not found does not remove policies; retries take one to two seconds.
		a.install(false)
		time.Sleep(1999 * time.Millisecond)
		if got := f.applicable(t, "shop"); len(got) != 1 || a.lists.Load() == lists {
			t.Errorf("not found once: %v after %d lists", got, a.lists.Load()-lists)
		}
		a.install(true)
		time.Sleep(10 * time.Minute)
		f.newChanges()
		logged := f.countLogs("Policy CRDs are not installed")

		a.install(false)
		time.Sleep(10 * time.Minute)
		if got := f.applicable(t, "shop"); len(got) != 0 || !f.HasSynced() {
			t.Errorf("removed: %v", got)
		}
		if diff := cmp.Diff([]string{"policy shop/limits"}, f.newChanges()); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
		if got := f.countLogs("Policy CRDs are not installed"); got != logged+1 {
			t.Errorf("logged %d times that there are none:\n%s", got, strings.Join(f.lines, "\n"))
		}
		if len(f.lines) > 7 {
			t.Errorf("got %d log lines:\n%s", len(f.lines), strings.Join(f.lines, "\n"))
		}
	})
}

// An outage of the API server changes nothing and is logged once, however many calls fail.
func TestStoreDuringOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		a.policies[v1alpha1.KindLoadBalancerPolicy].Add(lbpol("shop", "limits"))
		f := start(t, a, namespace("shop", nil))
		a.fail(errors.New("connection reset"))
		for _, source := range a.policies {
			source.ResetWatch()
		}
		time.Sleep(10 * time.Minute)
		if diff := cmp.Diff([]string{`LoadBalancerPolicy "limits"`}, f.applicable(t, "shop")); diff != "" {
			t.Errorf("during the outage (-want +got):\n%s", diff)
		}
		if got := f.countLogs("connection reset"); got == 0 || got > 4 {
			t.Errorf("logged %d times, want at most once for each kind of call:\n%s", got, strings.Join(f.lines, "\n"))
		}
		a.fail(nil)
		a.policies[v1alpha1.KindLoadBalancerPolicy].Add(lbpol("shop", "more"))
		time.Sleep(time.Minute)
		if diff := cmp.Diff(
			[]string{`LoadBalancerPolicy "limits"`, `LoadBalancerPolicy "more"`}, f.applicable(t, "shop"),
		); diff != "" {
			t.Errorf("after the outage (-want +got):\n%s", diff)
		}
		if f.countLogs("succeeds again") == 0 {
			t.Errorf("the end of the outage was not logged:\n%s", strings.Join(f.lines, "\n"))
		}
	})
}

func TestStoreNeedsPoliciesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		a.fail(errors.New("connection refused"))
		f := start(t, a)
		time.Sleep(time.Minute)
		if f.HasSynced() {
			t.Error("has synced without a response")
		}
		if _, err := f.Applicable(t.Context(), "shop"); err == nil {
			t.Error("returned policies without a response")
		}
		if _, _, err := f.Others(policy.Key{}); err == nil {
			t.Error("returned the others without a response")
		}
		if got := f.countLogs("connection refused"); got != 2 {
			t.Errorf("logged %d times that the lists of two kinds failed:\n%s", got, strings.Join(f.lines, "\n"))
		}
		a.fail(nil)
		time.Sleep(3 * time.Second)
		if !f.HasSynced() {
			t.Error("has not synced")
		}
	})
}

// A namespace that was just created may not be in the cache when its first Service is created.
func TestUnknownNamespaces(t *testing.T) {
	for name, test := range map[string]struct {
		cluster bool
		get     error
		want    []string
		calls   int
		err     string
	}{
		"no policy selects by labels": {calls: 0},
		"read directly":               {cluster: true, want: []string{`ClusterLoadBalancerPolicy "edge"`}, calls: 1},
		"the API server does not respond": {
			cluster: true, get: errors.New("timeout"), calls: 1, err: "get namespace new: timeout",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI()
				if test.cluster {
					a.policies[v1alpha1.KindClusterLoadBalancerPolicy].Add(clbpol("edge", map[string]string{"tier": "edge"}))
				}
				f := start(t, a)
				calls := 0
				f.cluster.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
					calls++
					return true, namespace("new", map[string]string{"tier": "edge"}), test.get
				})
				list, err := f.Applicable(t.Context(), "new")
				var got []string
				for _, p := range list {
					got = append(got, p.Name())
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("policies (-want +got):\n%s", diff)
				}
				if calls != test.calls || test.err != "" && (err == nil || err.Error() != test.err) || test.err == "" &&
					err != nil {
					t.Errorf("%d calls, error %v", calls, err)
				}
			})
		})
	}
}

// paged is an API that returns one policy in each page of a list.
type paged struct {
	*api
	limits []int64
}

func (p *paged) List(_ context.Context, kind string, options metav1.ListOptions) (runtime.Object, error) {
	list := &v1alpha1.LoadBalancerPolicyList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	if kind == v1alpha1.KindClusterLoadBalancerPolicy {
		return &v1alpha1.ClusterLoadBalancerPolicyList{ListMeta: list.ListMeta}, nil
	}
	if options.ResourceVersion != "" {
		p.limits = append(p.limits, 0) // the API server ignores the limit
	}
	p.limits = append(p.limits, options.Limit)
	list.Items = []v1alpha1.LoadBalancerPolicy{*lbpol("shop", "p-"+options.Continue)}
	if list.Continue = options.Continue + "x"; options.Continue == "xx" {
		list.Continue = ""
	}
	return list, nil
}

// An API server that does not stream lists is asked for few policies at a time: all of them may not fit into the memory.
func TestStoreReadsPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &paged{api: newAPI()}
		f := start(t, a, namespace("shop", nil))
		if diff := cmp.Diff([]int64{25, 25, 25}, a.limits); diff != "" {
			t.Errorf("limits (-want +got):\n%s", diff)
		}
		if got := f.applicable(t, "shop"); len(got) != 3 {
			t.Errorf("policies %v", got)
		}
	})
}
