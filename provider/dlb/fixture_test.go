package dlb_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	events "k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/kube/condition"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/provider/dlb/tree"
	"quaymaster.dev/provider/mirror"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/env"
)

const (
	clusterUID = "c1a5e000-0000-4000-8000-000000000001"
	annotation = "service.beta.kubernetes.io/dlb-"
)

// fixture is a Balancer with its cloud and its cluster, which has the Service of the test.
type fixture struct {
	t *testing.T
	*dlb.Balancer
	cloud   *cloud.Cloud
	client  *fake.Clientset
	events  *events.FakeRecorder
	group   *cloudv1.NodeGroup
	options dlb.Options
	// seen is what the lister of Services has.
	seen cache.Indexer
	// ticks is the clock of the mirror, clock that of the Balancer.
	ticks *clocktesting.FakeClock
	clock *clocktesting.FakePassiveClock
}

// groups implements NodeGroups for groups that are already in the cloud.
type groups map[string]string

func (g groups) ID(ctx context.Context, group string) (string, error) {
	if id, ok := g[group]; ok {
		return id, nil
	}
	<-ctx.Done()
	return "", ctx.Err()
}

func start(t *testing.T, jobDuration time.Duration, change ...func(*dlb.Options)) *fixture {
	t.Helper()
	f := &fixture{
		t: t, cloud: cloud.Start(t, jobDuration), events: events.NewFakeRecorder(100),
		seen: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), ticks: clocktesting.NewFakeClock(time.Now()),
		clock: clocktesting.NewFakePassiveClock(time.Unix(begin, 0)),
	}
	f.client = fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: clusterUID}})
	var err error
	f.group, err = f.cloud.Client.CreateNodeGroup(
		t.Context(), cloudv1.NodeGroupSpec{Name: "dev-default", Tags: map[string]string{ownership.ClusterUID: clusterUID}},
		cloudapi.WriteOptions{},
	)
	if err != nil {
		t.Fatal(err)
	}
	cluster := ownership.NewCluster(f.client.CoreV1())
	f.options = dlb.Options{
		Cloud: f.cloud.Client, Cluster: cluster, ClusterID: "dev", Mirror: f.mirror(f.cloud, cluster),
		Network: tree.Network{VPCID: "vpc-main"}, LoadBalancerClass: "mycloud.io/dlb", DefaultClass: true,
		NodeGroups: groups{"default": f.group.ID}, Services: corelisters.NewServiceLister(f.seen), Recorder: f.events,
		Clock: f.clock,
	}
	for _, c := range change {
		c(&f.options)
	}
	f.restart()
	f.sync()
	f.cloud.Calls()
	return f
}

// mirror runs a mirror of a cloud. Its requests are neither recorded nor intercepted.
func (f *fixture) mirror(c *cloud.Cloud, cluster *ownership.Cluster) *mirror.Mirror {
	f.t.Helper()
	front := httptest.NewServer(http.HandlerFunc(c.Serve))
	f.t.Cleanup(front.Close)
	client, err := cloudapi.New(cloudapi.Options{Endpoint: front.URL, Token: cloudapi.StaticToken(cloud.Token)})
	if err != nil {
		f.t.Fatal(err)
	}
	m := mirror.New(mirror.Options{Cloud: client, Cluster: cluster, Clock: f.ticks})
	ctx, stop := context.WithCancel(f.t.Context())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	f.t.Cleanup(func() { stop(); running.Wait() })
	return m
}

// restart starts the controllers again: they forget what they had in memory. The mirror goes on.
func (f *fixture) restart() { f.Balancer = dlb.New(f.options) }

// sync waits until the mirror has what the cloud has. Beside an intercepted cloud it asks the cloud itself.
func (f *fixture) sync() {
	f.t.Helper()
	front := httptest.NewServer(http.HandlerFunc(f.cloud.Serve))
	defer front.Close()
	client, err := cloudapi.New(cloudapi.Options{Endpoint: front.URL, Token: cloudapi.StaticToken(cloud.Token)})
	if err != nil {
		f.t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		list, err := client.ListLoadBalancers(
			f.t.Context(), cloudapi.ListOptions{Tags: map[string]string{ownership.ClusterUID: clusterUID}})
		if err != nil {
			f.t.Fatal(err)
		}
		want, got := map[string]string{}, map[string]string{}
		for i := range list.Items {
			want[list.Items[i].ID] = list.Items[i].Revision
		}
		for _, lb := range f.options.Mirror.LoadBalancers.List() {
			got[lb.ID] = lb.Revision
		}
		if f.options.Mirror.LoadBalancers.Synced() && cmp.Equal(want, got) {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("the mirror has %v, the cloud %v", got, want)
		}
		f.ticks.Step(11 * time.Second)
	}
}

// put creates or updates the Service in the cluster. As with kubectl apply, its record stays.
func (f *fixture) put(svc *corev1.Service) *corev1.Service {
	f.t.Helper()
	svc = svc.DeepCopy()
	services := f.client.CoreV1().Services(svc.Namespace)
	old, err := services.Get(f.t.Context(), svc.Name, metav1.GetOptions{})
	if err != nil {
		svc, err = services.Create(f.t.Context(), svc, metav1.CreateOptions{})
	} else {
		svc.Status = old.Status
		delete(svc.Annotations, service.AnnotationRecord)
		if value, has := old.Annotations[service.AnnotationRecord]; has {
			metav1.SetMetaDataAnnotation(&svc.ObjectMeta, service.AnnotationRecord, value)
		}
		svc, err = services.Update(f.t.Context(), svc, metav1.UpdateOptions{})
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.see(svc)
	return svc
}

// edit changes the stored Service, as a user may.
func (f *fixture) edit(svc *corev1.Service, change func(*corev1.Service)) {
	f.t.Helper()
	stored := f.stored(svc)
	change(stored)
	if _, err := f.client.CoreV1().Services(svc.Namespace).Update(f.t.Context(), stored, metav1.UpdateOptions{}); err != nil {
		f.t.Fatal(err)
	}
	f.see(svc)
}

// forget removes the Service's record, as if an earlier version had created the load balancer.
func (f *fixture) forget(svc *corev1.Service) {
	f.edit(svc, func(s *corev1.Service) { delete(s.Annotations, service.AnnotationRecord) })
}

func (f *fixture) stored(svc *corev1.Service) *corev1.Service {
	f.t.Helper()
	now, err := f.client.CoreV1().Services(svc.Namespace).Get(f.t.Context(), svc.Name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return now
}

// pass advances the clock of the Balancer by seconds.
func (f *fixture) pass(seconds int) {
	f.clock.SetTime(f.clock.Now().Add(time.Duration(seconds) * time.Second))
}

// settle ensures the Service's load balancer until the cloud has finished.
func (f *fixture) settle(svc *corev1.Service) (published *corev1.LoadBalancerStatus) {
	f.t.Helper()
	env.Eventually(f.t, 10*time.Second, "a settled load balancer", func(context.Context) (err error) {
		published, err = f.ensure(svc)
		return err
	})
	return published
}

// see updates the lister with the cluster's Service.
func (f *fixture) see(svc *corev1.Service) {
	f.t.Helper()
	if err := f.seen.Update(f.stored(svc)); err != nil {
		f.t.Fatal(err)
	}
}

// ensure creates or updates the Service in the cluster and ensures its load balancer.
func (f *fixture) ensure(svc *corev1.Service) (*corev1.LoadBalancerStatus, error) {
	f.t.Helper()
	f.sync()
	stored := f.put(svc)
	status, err := f.ensureStored(stored)
	f.see(svc)
	return status, err
}

func (f *fixture) mustEnsure(svc *corev1.Service) *corev1.LoadBalancerStatus {
	f.t.Helper()
	status, err := f.ensure(svc)
	if err != nil {
		f.t.Fatalf("ensure: %v", err)
	}
	return status
}

// all returns the cloud's load balancers.
func (f *fixture) all() []cloudv1.LoadBalancer {
	f.t.Helper()
	list, err := f.cloud.Client.ListLoadBalancers(f.t.Context(), cloudapi.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return list.Items
}

// only returns the cloud's only load balancer.
func (f *fixture) only() cloudv1.LoadBalancer {
	f.t.Helper()
	all := f.all()
	if len(all) != 1 {
		f.t.Fatalf("%d load balancers, want 1", len(all))
	}
	return all[0]
}

func (f *fixture) condition(svc *corev1.Service) *metav1.Condition {
	f.t.Helper()
	got, err := f.client.CoreV1().Services(svc.Namespace).Get(f.t.Context(), svc.Name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return meta.FindStatusCondition(got.Status.Conditions, condition.Configured)
}

func (f *fixture) expectCondition(svc *corev1.Service, status metav1.ConditionStatus, reason, message string) {
	f.t.Helper()
	c := f.condition(svc)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) {
		f.t.Errorf("condition %+v, want %s, %s, %q", c, status, reason, message)
	}
}

// expectCalls compares the requests to the cloud, with paths without ids.
func (f *fixture) expectCalls(what string, want ...string) {
	f.t.Helper()
	var got []string
	for _, call := range f.cloud.Calls() {
		method, path, _ := strings.Cut(call, " ")
		parts := strings.Split(strings.TrimPrefix(path, "/v1/"), "/")
		call = method + " " + parts[0]
		if len(parts) > 1 {
			_, verb, _ := strings.Cut(parts[1], ":")
			call += "/{id}" + map[bool]string{true: ":" + verb}[verb != ""]
		}
		got = append(got, call)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("%s: unexpected calls (-want +got):\n%s", what, diff)
	}
}

func (f *fixture) expectEvent(text string) {
	f.t.Helper()
	for {
		select {
		case event := <-f.events.Events:
			if strings.Contains(event, text) {
				return
			}
		default:
			f.t.Errorf("no event with %q", text)
			return
		}
	}
}
