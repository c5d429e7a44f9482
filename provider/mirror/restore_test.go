package mirror

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/harness/cloud"
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
	m.LoadBalancers.Put(t.Context(), lost)
	renamed := *kept
	renamed.Revision, renamed.Name = lost.Revision+"0", "lost"
	m.LoadBalancers.Put(t.Context(), &renamed)
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

// TestAnswersOfALostState: the cloud is restored while an answer of the state before is on its way into the mirror. What the
// restore has lost does not stay there, although its revision is newer than what the cloud has now.
func TestAnswersOfALostState(t *testing.T) {
	for name, answer := range map[string]func(c *identified, lost *cloudv1.LoadBalancer, restore func()){
		"a list": func(c *identified, _ *cloudv1.LoadBalancer, restore func()) {
			list := c.mirror.LoadBalancers.list
			c.mirror.LoadBalancers.list = func(ctx context.Context, since string) (*cloudv1.List[cloudv1.LoadBalancer], error) {
				found, err := list(ctx, since)
				c.mirror.LoadBalancers.list = list
				restore()
				return found, err
			}
			if _, err := c.mirror.step(c.t.Context()); !errors.Is(err, cloudapi.ErrOtherState) {
				c.t.Errorf("the list counts: %v", err)
			}
		},
		"a change": func(c *identified, lost *cloudv1.LoadBalancer, restore func()) {
			c.step()
			raw, err := json.Marshal(lost)
			if err != nil {
				c.t.Fatal(err)
			}
			ctx := c.client.WithinState(c.t.Context())
			restore()
			change := cloudv1.Change{Kind: cloudv1.KindLoadBalancer, ID: lost.ID, Op: cloudv1.ChangeUpsert, Object: raw}
			if err := c.mirror.apply(ctx, []cloudv1.Change{change}); err != nil {
				c.t.Fatal(err)
			}
		},
		"a response": func(c *identified, lost *cloudv1.LoadBalancer, restore func()) {
			c.step()
			ctx := c.client.WithinState(c.t.Context())
			restore()
			c.mirror.LoadBalancers.Put(ctx, lost)
		},
	} {
		t.Run(name, func(t *testing.T) {
			cl := cloud.Start(t, 0)
			backup := cl.Backup(t)
			balancer(t, cl)
			lost := balancer(t, cl)
			c := identify(t, cl)
			if err := c.client.Identify(t.Context()); err != nil {
				t.Fatal(err)
			}
			answer(c, lost, func() {
				cl.Restore(t, backup)
				c.notice()
			})
			if c.mirror.LoadBalancers.Synced() {
				t.Error("the mirror is synced before the restored state was read")
			}
			c.step()
			if left := c.mirror.LoadBalancers.List(); len(left) > 0 || !c.mirror.LoadBalancers.Synced() {
				t.Errorf("the mirror has what the cloud has lost: %+v", left)
			}
		})
	}
}

// TestAbsenceInALostState: a load balancer was absent from a state that the cloud has lost since. The restored cloud has it,
// and so has the mirror, although it learns of the absence late.
func TestAbsenceInALostState(t *testing.T) {
	cl := cloud.Start(t, 0)
	lb := balancer(t, cl)
	backup := cl.Backup(t)
	c := identify(t, cl)
	if err := c.client.Identify(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.client.DeleteLoadBalancer(t.Context(), lb.ID, cloudapi.WriteOptions{IfMatch: lb.Revision}); err != nil {
		t.Fatal(err)
	}
	ctx := c.client.WithinState(t.Context())
	if _, err := c.client.LoadBalancer(ctx, lb.ID); !cloudapi.IsAbsent(err) {
		t.Fatal(err)
	}
	cl.Restore(t, backup)
	c.notice()
	c.step()
	c.mirror.LoadBalancers.Drop(ctx, lb.ID)
	if c.mirror.LoadBalancers.Get(lb.ID) == nil {
		t.Error("the mirror lacks what the cloud has again")
	}
}

// identified is a mirror with a client that identifies the cloud.
type identified struct {
	t      *testing.T
	client *cloudapi.Client
	mirror *Mirror
}

func identify(t *testing.T, cl *cloud.Cloud) *identified {
	t.Helper()
	c := &identified{t: t}
	var err error
	c.client, err = cloudapi.New(cloudapi.Options{
		Endpoint: cl.Endpoint, Token: cloudapi.StaticToken(cloud.Token),
		Identify: func(ctx context.Context) error {
			meta, err := c.client.Identity(ctx)
			if err == nil {
				c.mirror.Lost(meta)
				c.client.Expect(meta.ID, meta.Revision)
			}
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "uid"}})
	c.mirror = New(Options{Cloud: c.client, Cluster: ownership.NewCluster(api.CoreV1())})
	return c
}

func (c *identified) step() {
	c.t.Helper()
	if _, err := c.mirror.step(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
}

// notice makes calls until the client has identified the restored cloud: the first ones fail because of that, or because
// their connection is broken.
func (c *identified) notice() {
	c.t.Helper()
	for range 5 {
		if _, err := c.client.Zones(c.t.Context(), cloudapi.ListOptions{}); err == nil {
			return
		}
	}
	c.t.Fatal("the cloud does not answer")
}
