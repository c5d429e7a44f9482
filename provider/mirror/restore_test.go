package mirror

import (
	"crypto/rand"
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
		Name: rand.Text(), Tags: map[string]string{ownership.ClusterUID: "uid"}, LoadBalancerFields: cloudv1.LoadBalancerFields{
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
	return m, clock, func() {
		_, err := m.step(t.Context())
		m.note(err)
	}
}

// TestLost: the cloud is restored to an earlier state, also of the time before its changes were read last. What was
// written since is lost, although its revision is newer than what the cloud has now.
func TestLost(t *testing.T) {
	c := cloud.Start(t, 0)
	kept := balancer(t, c)
	backup := c.Backup(t)
	m, _, step := steps(t, c)
	step()
	step()
	lost := balancer(t, c)
	m.LoadBalancers.Put(lost)
	renamed := *kept
	renamed.Revision, renamed.Name = lost.Revision+"0", "lost"
	m.LoadBalancers.Put(&renamed)
	c.Restore(t, backup)
	m.note(cloudapi.ErrOtherState)
	m.Lost(nil)
	if err := m.Err(); err != nil {
		t.Errorf("what was wrong before the cloud was identified still counts: %v", err)
	}
	if m.LoadBalancers.Synced() || m.LoadBalancers.Get(lost.ID) == nil {
		t.Error("the mirror is synced, or has forgotten what it had")
	}
	step()
	if got := m.LoadBalancers.Get(kept.ID); m.Err() != nil || got == nil || got.Name != kept.Name || m.LoadBalancers.Get(lost.ID) != nil ||
		!m.LoadBalancers.Synced() {
		t.Errorf("the mirror has %+v, error %v", m.LoadBalancers.List(), m.Err())
	}
}
