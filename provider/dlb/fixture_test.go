package dlb_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/cloud"
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
	events  *record.FakeRecorder
	group   *cloudv1.NodeGroup
	options dlb.Options
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
	f := &fixture{t: t, cloud: cloud.Start(t, jobDuration), events: record.NewFakeRecorder(100)}
	f.client = fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: clusterUID}})
	var err error
	f.group, err = f.cloud.Client.CreateNodeGroup(
		t.Context(), cloudv1.NodeGroupSpec{Name: "dev-default"}, cloudapi.WriteOptions{},
	)
	if err != nil {
		t.Fatal(err)
	}
	f.options = dlb.Options{
		Cloud: f.cloud.Client, Cluster: ownership.NewCluster(f.client.CoreV1()), ClusterID: "dev",
		Network: dlb.Network{VPCID: "vpc-main"}, LoadBalancerClass: "mycloud.io/dlb",
		NodeGroups: groups{"default": f.group.ID}, Services: f.client.CoreV1(), Recorder: f.events, Wait: 5 * time.Second,
	}
	for _, c := range change {
		c(&f.options)
	}
	f.Balancer = dlb.New(f.options)
	f.cloud.Calls()
	return f
}

// put creates or updates the Service in the cluster.
func (f *fixture) put(svc *corev1.Service) *corev1.Service {
	f.t.Helper()
	services := f.client.CoreV1().Services(svc.Namespace)
	old, err := services.Get(f.t.Context(), svc.Name, metav1.GetOptions{})
	if err != nil {
		svc, err = services.Create(f.t.Context(), svc, metav1.CreateOptions{})
	} else {
		svc.Status = old.Status
		svc, err = services.Update(f.t.Context(), svc, metav1.UpdateOptions{})
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return svc
}

// ensure creates or updates the Service in the cluster and ensures its load balancer.
func (f *fixture) ensure(svc *corev1.Service) (*corev1.LoadBalancerStatus, error) {
	f.t.Helper()
	svc = f.put(svc)
	return f.EnsureLoadBalancer(f.t.Context(), "dev", svc, nil)
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
	return meta.FindStatusCondition(got.Status.Conditions, dlb.ConditionConfigured)
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
