package mirror_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/mirror"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/harness/cloud"
)

const clusterUID = "cluster-uid"

func tags(serviceUID string) map[string]string {
	return map[string]string{ownership.ClusterUID: clusterUID, ownership.ServiceUID: serviceUID}
}

func start(t *testing.T, c *cloud.Cloud) (*mirror.Mirror, chan *cloudv1.LoadBalancer) {
	t.Helper()
	api := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: clusterUID}})
	m := mirror.New(mirror.Options{Cloud: c.Client, Cluster: ownership.NewCluster(api.CoreV1())})
	changes := make(chan *cloudv1.LoadBalancer, 100)
	m.LoadBalancers.OnChange(func(_, after *cloudv1.LoadBalancer) { changes <- after })
	var running sync.WaitGroup
	running.Go(func() { m.Run(t.Context()) })
	t.Cleanup(running.Wait)
	return m, changes
}

func create(t *testing.T, c *cloud.Cloud, name string, tags map[string]string) *cloudv1.LoadBalancer {
	t.Helper()
	lb, _, err := c.Client.CreateLoadBalancer(t.Context(), cloudv1.LoadBalancerSpec{
		Name: name, Tags: tags, LoadBalancerFields: cloudv1.LoadBalancerFields{
			Scheme: cloudv1.SchemePublic, VIPs: []cloudv1.VIP{{Family: cloudv1.FamilyIPv4, Mode: "vip"}},
			Listeners: []cloudv1.Listener{}, Pools: []cloudv1.Pool{},
		},
	}, cloudapi.WriteOptions{IdempotencyKey: name})
	if err != nil {
		t.Fatal(err)
	}
	return lb
}

func next(t *testing.T, changes chan *cloudv1.LoadBalancer) *cloudv1.LoadBalancer {
	t.Helper()
	select {
	case lb := <-changes:
		return lb
	case <-time.After(15 * time.Second):
		t.Fatal("no change arrived")
		return nil
	}
}

// TestFollows: the mirror has what was there and what comes, and loses what loses the cluster's tag.
func TestFollows(t *testing.T) {
	c := cloud.Start(t, 0)
	first := create(t, c, "first", tags("a"))
	create(t, c, "foreign", map[string]string{ownership.ClusterUID: "other"})
	m, changes := start(t, c)
	if got := next(t, changes); got.ID != first.ID {
		t.Fatalf("first change: %+v", got)
	}
	second := create(t, c, "second", tags("b"))
	if got := next(t, changes); got.ID != second.ID {
		t.Fatalf("second change: %+v", got)
	}
	if found := m.LoadBalancers.Find("b"); len(found) != 1 || found[0].ID != second.ID {
		t.Errorf("found %+v", found)
	}
	if !m.Synced() || !m.Current() || m.Instances.Len() == 0 {
		t.Errorf("synced %t, current %t, %d instances", m.Synced(), m.Current(), m.Instances.Len())
	}
	_, _, err := c.Client.PatchLoadBalancer(t.Context(), second.ID,
		cloudv1.LoadBalancerPatch{Tags: map[string]*string{ownership.ClusterUID: nil}},
		cloudapi.WriteOptions{IfMatch: second.Revision})
	if err != nil {
		t.Fatal(err)
	}
	if got := next(t, changes); got != nil {
		t.Fatalf("after the loss of the tag: %+v", got)
	}
	if m.LoadBalancers.Get(second.ID) != nil || len(m.LoadBalancers.Find("b")) != 0 || len(m.LoadBalancers.List()) != 1 {
		t.Errorf("still there: %+v", m.LoadBalancers.List())
	}
}

// TestOutage: while the cloud does not answer, the mirror keeps what it has, and catches up afterwards.
func TestOutage(t *testing.T) {
	c := cloud.Start(t, 0)
	first := create(t, c, "first", tags("a"))
	m, changes := start(t, c)
	next(t, changes)
	c.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/v1/load-balancers") && r.Method == http.MethodPost {
			return false
		}
		cloud.Problem(w, http.StatusServiceUnavailable, cloudv1.CodeUnavailable)
		return true
	})
	second := create(t, c, "second", tags("b"))
	if m.LoadBalancers.Get(first.ID) == nil {
		t.Error("the mirror forgot what it had")
	}
	c.Intercept(nil)
	if got := next(t, changes); got.ID != second.ID {
		t.Errorf("got %+v", got)
	}
}

// TestRecovery: that the cloud answers again is known at once, although it holds requests while nothing changes.
func TestRecovery(t *testing.T) {
	c := cloud.Start(t, 0)
	failed := make(chan struct{})
	var once sync.Once
	c.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		intercepted := false
		if r.URL.Path == "/v1/changes" {
			once.Do(func() { intercepted = true; close(failed) })
		}
		if intercepted {
			cloud.Problem(w, http.StatusServiceUnavailable, cloudv1.CodeUnavailable)
		}
		return intercepted
	})
	m, _ := start(t, c)
	<-failed
	seen := false
	for deadline := time.Now().Add(15 * time.Second); !seen || m.Err() != nil; time.Sleep(10 * time.Millisecond) {
		seen = seen || m.Err() != nil
		if time.Now().After(deadline) {
			t.Fatalf("the error stays: %v", m.Err())
		}
	}
}

// TestPut: the response of a write is visible at once, but never hides what the cloud reported later.
func TestPut(t *testing.T) {
	c := cloud.Start(t, 0)
	lb := create(t, c, "first", tags("a"))
	m, changes := start(t, c)
	next(t, changes)
	old, later := *lb, *lb
	old.ProvisioningState, later.Revision = cloudv1.ProvisioningPendingUpdate, lb.Revision+"0"
	m.LoadBalancers.Put(t.Context(), &old)
	if got := m.LoadBalancers.Get(lb.ID); got.ProvisioningState != lb.ProvisioningState {
		t.Errorf("an old response replaced the object: %+v", got)
	}
	m.LoadBalancers.Put(t.Context(), &later)
	if got := m.LoadBalancers.Get(lb.ID); got.Revision != later.Revision {
		t.Errorf("the response was not stored: %+v", got)
	}
	m.LoadBalancers.Drop(t.Context(), lb.ID)
	if m.LoadBalancers.Get(lb.ID) != nil {
		t.Error("the object is still there")
	}
}

// TestObservedState: that a load balancer serves is no change of the cloud, but the mirror learns it.
func TestObservedState(t *testing.T) {
	c := cloud.Start(t, 0)
	group, err := c.Client.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{Name: "group"}, cloudapi.WriteOptions{IdempotencyKey: "group"})
	if err != nil {
		t.Fatal(err)
	}
	m, changes := start(t, c)
	lb, _, err := c.Client.CreateLoadBalancer(t.Context(), cloudv1.LoadBalancerSpec{
		Name: "first", Tags: tags("a"), LoadBalancerFields: cloudv1.LoadBalancerFields{
			Scheme: cloudv1.SchemePublic, VIPs: []cloudv1.VIP{{Family: cloudv1.FamilyIPv4, Mode: "vip"}},
			Listeners: []cloudv1.Listener{{Key: "tcp/80", Protocol: cloudv1.ProtocolTCP, Port: 80, PoolKey: "tcp/80"}},
			Pools: []cloudv1.Pool{{
				Key: "tcp/80", Family: cloudv1.FamilyIPv4, Protocol: cloudv1.ProtocolTCP, Algorithm: "round_robin",
				TargetPort: 30080, NodeGroupID: group.ID,
			}},
		},
	}, cloudapi.WriteOptions{IdempotencyKey: "first"})
	if err != nil {
		t.Fatal(err)
	}
	if got := next(t, changes); got.OperatingState != cloudv1.OperatingNoMembers {
		t.Fatalf("operating state %s without members", got.OperatingState)
	}
	_, err = c.Client.PatchMembers(t.Context(), group.ID, cloudv1.MembersPatch{Upsert: []cloudv1.GroupMember{{
		Key: "i-node-1", InstanceID: "i-node-1", Weight: 1, State: cloudv1.MemberActive,
		Addresses: []cloudv1.MemberAddress{{Family: cloudv1.FamilyIPv4, Address: "10.0.0.11"}},
	}}}, cloudapi.WriteOptions{IfMatch: group.Revision})
	if err != nil {
		t.Fatal(err)
	}
	if got := next(t, changes); got.OperatingState == cloudv1.OperatingNoMembers {
		t.Errorf("operating state %s with a member", got.OperatingState)
	}
	if got := m.LoadBalancers.Get(lb.ID); got.Revision != lb.Revision {
		t.Errorf("revision %s, was %s", got.Revision, lb.Revision)
	}
}

// TestNewsOfEdges: the mirror learns that a load balancer that served has stopped, as soon as an edge reports it.
func TestNewsOfEdges(t *testing.T) {
	c := cloud.Start(t, 0)
	edges := c.EdgeClient(t)
	edge, err := edges.RegisterEdge(t.Context(), cloudv1.EdgeSpec{Name: "edge-1"}, cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lb, _, err := c.Client.CreateLoadBalancer(t.Context(), cloudv1.LoadBalancerSpec{
		Name: "first", Tags: tags("a"), LoadBalancerFields: cloudv1.LoadBalancerFields{
			Scheme:    cloudv1.SchemePublic,
			Listeners: []cloudv1.Listener{{Key: "tcp/80", Protocol: cloudv1.ProtocolTCP, Port: 80, PoolKey: "tcp/80"}},
			Pools: []cloudv1.Pool{{
				Key: "tcp/80", Family: cloudv1.FamilyIPv4, Protocol: cloudv1.ProtocolTCP, Algorithm: "round_robin", TargetPort: 30080,
				Members: []cloudv1.Member{{Key: "a", Address: "10.0.0.1", Port: 30080, Weight: 1, State: cloudv1.MemberActive}},
				HealthMonitor: &cloudv1.HealthMonitor{
					Type: cloudv1.ProtocolTCP, IntervalMS: 2000, TimeoutMS: 1000, Rise: 1, Fall: 1,
				},
			}},
		},
	}, cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	report := func(state string) {
		t.Helper()
		meta, err := edges.Meta(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = edges.Heartbeat(t.Context(), edge.ID, cloudv1.Heartbeat{
			AppliedRevision: meta.Revision, Health: &[]cloudv1.MemberHealth{{
				LoadBalancerID: lb.ID, PoolKey: "tcp/80", Family: cloudv1.FamilyIPv4, MemberKey: "a", State: state,
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	report(cloudv1.OperatingOnline)
	m, changes := start(t, c)
	state := func(want string) {
		t.Helper()
		for lb := next(t, changes); lb.OperatingState != want; lb = next(t, changes) {
			t.Logf("operating state %s", lb.OperatingState)
		}
	}
	state(cloudv1.OperatingOnline)
	report(cloudv1.OperatingOffline)
	state(cloudv1.OperatingOffline)
	if got := m.LoadBalancers.Get(lb.ID); got.OperatingState != cloudv1.OperatingOffline {
		t.Errorf("operating state %s", got.OperatingState)
	}
}
