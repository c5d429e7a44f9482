package mirror

import (
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/cloud"
)

// balancer creates a load balancer of the cluster.
func balancer(t *testing.T, c *cloud.Cloud) *cloudv1.LoadBalancer {
	t.Helper()
	lb, _, err := c.Client.CreateLoadBalancer(t.Context(), cloudv1.LoadBalancerSpec{
		Name: "web", Tags: map[string]string{ownership.ClusterUID: "uid"}, LoadBalancerFields: cloudv1.LoadBalancerFields{
			Scheme: cloudv1.SchemePublic, VIPs: []cloudv1.VIP{{Family: cloudv1.FamilyIPv4, Mode: cloudv1.VIPModeVIP}},
			Listeners: []cloudv1.Listener{}, Pools: []cloudv1.Pool{},
		},
	}, cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lb
}

// steps returns a mirror of a cloud, its clock, and the function that does what Run does once.
func steps(t *testing.T, c *cloud.Cloud) (*Mirror, *clocktesting.FakeClock, func()) {
	api := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "uid"}})
	clock := clocktesting.NewFakeClock(time.Now())
	m := New(Options{Cloud: c.Client, Cluster: ownership.NewCluster(api.CoreV1()), Clock: clock})
	var since string
	var verify time.Time
	return m, clock, func() {
		_, err := m.step(t.Context(), &since, &verify)
		m.note(err)
	}
}

// TestLostWrite: the cloud is restored to the state whose changes the mirror has read last. A later write, whose response
// the mirror has, is lost, although the revision is still known.
func TestLostWrite(t *testing.T) {
	c := cloud.Start(t, 0)
	lb := balancer(t, c)
	m, _, step := steps(t, c)
	step()
	c.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		cloud.Problem(w, http.StatusServiceUnavailable, cloudv1.CodeUnavailable)
		return true
	})
	step()
	written := *lb
	written.Revision, written.Name = lb.Revision+"0", "lost"
	m.LoadBalancers.Put(&written)
	c.Intercept(nil)
	step()
	if got := m.LoadBalancers.Get(lb.ID); m.Err() != nil || got == nil || got.Name != lb.Name {
		t.Errorf("the mirror has %+v, error %v", got, m.Err())
	}
}

// TestRestoredWhileAway: after an outage that is longer than verifyPeriod, the mirror reads lists before it asks for
// changes, and yet learns that the cloud was restored from a backup meanwhile.
func TestRestoredWhileAway(t *testing.T) {
	c, restored := cloud.Start(t, 0), cloud.Start(t, 0)
	for _, name := range []string{"a", "b", "c", "d"} {
		if _, err := c.Client.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{Name: name}, cloudapi.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	lost, kept := balancer(t, c), balancer(t, restored)
	m, clock, step := steps(t, c)
	step()
	if m.LoadBalancers.Get(lost.ID) == nil {
		t.Fatal("the mirror lacks the load balancer of the first state")
	}
	clock.Step(verifyPeriod)
	c.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		restored.Serve(w, r)
		return true
	})
	step()
	if m.LoadBalancers.Get(lost.ID) != nil || m.LoadBalancers.Get(kept.ID) == nil {
		t.Errorf("the mirror has %+v", m.LoadBalancers.List())
	}
}
