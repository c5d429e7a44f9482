package ingressnode_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server/inventory"
	"quaymaster.dev/provider/mirror"
	"quaymaster.dev/provider/nodegroup"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/providerid"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/env"
)

const clusterUID = "c1a5e000-0000-4000-8000-000000000001"

// driftPeriod is how often the controller checks for drift.
const driftPeriod = 30 * time.Second

// limit bounds how long a change takes to reach the cloud.
const limit = 5 * time.Second

// fixture is a Controller between a cluster and the reference cloud.
type fixture struct {
	t      *testing.T
	cloud  *cloud.Cloud
	client *fake.Clientset
	events *record.FakeRecorder
	drift  *drift
	// clock is drift unless the test sets another one, percent 100.
	clock   clock.WithTicker
	percent int
	stop    func()
	*ingressnode.Controller
}

// drift is the real clock with a ticker for drift checks that the test drives.
type drift struct {
	clock.RealClock
	ticks chan time.Time
}

func (d *drift) NewTicker(period time.Duration) clock.Ticker {
	if period != driftPeriod {
		return d.RealClock.NewTicker(period)
	}
	return d
}
func (d *drift) C() <-chan time.Time { return d.ticks }
func (d *drift) Stop()               {}

func start(t *testing.T, nodes ...*corev1.Node) *fixture {
	t.Helper()
	ticks := &drift{ticks: make(chan time.Time)}
	return startWith(t, &fixture{drift: ticks, clock: ticks, percent: 100}, nodes...)
}

func startWith(t *testing.T, f *fixture, nodes ...*corev1.Node) *fixture {
	t.Helper()
	f.t, f.cloud = t, cloud.Start(t, 0, instances(9)...)
	f.client = fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: clusterUID}})
	for _, n := range nodes {
		f.put(n)
	}
	f.run()
	t.Cleanup(func() { f.stop() })
	return f
}

// run starts a Controller without the state of a previous one.
func (f *fixture) run() {
	f.t.Helper()
	f.events = record.NewFakeRecorder(100)
	factory := informers.NewSharedInformerFactory(f.client, 0)
	cluster := ownership.NewCluster(f.client.CoreV1())
	unused := mirror.New(mirror.Options{Cloud: f.cloud.Client, Cluster: cluster})
	var err error
	f.Controller, err = ingressnode.New(ingressnode.Options{
		Groups:     nodegroup.New(f.cloud.Client, unused.NodeGroups, cluster, "dev"),
		Machines:   nodegroup.NewMachines(f.cloud.Client, unused),
		Nodes:      factory.Core().V1().Nodes(),
		Recorder:   f.events,
		InstanceID: providerid.Parse, FallbackAll: true, Clock: f.clock,
		MaxRemovedPercent: f.percent, MaxGroups: 10,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(f.t.Context(), klog.Logger{}))
	factory.StartWithContext(ctx)
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	f.stop = func() {
		cancel()
		running.Wait()
		factory.Shutdown()
	}
}

// put creates or updates the Node.
func (f *fixture) put(node *corev1.Node) {
	f.t.Helper()
	nodes := f.client.CoreV1().Nodes()
	_, err := nodes.Update(f.t.Context(), node, metav1.UpdateOptions{})
	if err != nil {
		_, err = nodes.Create(f.t.Context(), node, metav1.CreateOptions{})
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// instances returns the instances i-node-1 to i-node-<count> with the addresses that node gives to their Nodes.
func instances(count int) []inventory.Instance {
	var list []inventory.Instance
	for i := 1; i <= count; i++ {
		n := node(i)
		instance := inventory.Instance{ID: "i-" + n.Name, Hostname: n.Name, Type: "m1.small", Zone: "eu-1a"}
		for _, a := range n.Status.Addresses {
			ip, err := netip.ParseAddr(a.Address)
			if err != nil {
				continue
			}
			family := cloudv1.FamilyIPv4
			if ip.Is6() {
				family = cloudv1.FamilyIPv6
			}
			kind := map[corev1.NodeAddressType]string{
				corev1.NodeInternalIP: cloudv1.AddressInternal, corev1.NodeExternalIP: cloudv1.AddressExternal,
			}[a.Type]
			instance.Addresses = append(instance.Addresses, cloudv1.InstanceAddress{Type: kind, Family: family, Address: ip.String()})
		}
		list = append(list, instance)
	}
	return list
}

// node returns a ready Node whose instance is i-node-<number>.
func node(number int, change ...func(*corev1.Node)) *corev1.Node {
	name := fmt.Sprintf("node-%d", number)
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{corev1.LabelTopologyZone: "eu-1a"},
			Annotations: map[string]string{},
		},
		Spec: corev1.NodeSpec{ProviderID: "mycloud://i-" + name},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeHostName, Address: name},
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.%d.%d", number/100, 10+number%100)},
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("FD00::%d", number)},
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.1.%d.%d", number/100, 10+number%100)},
				{Type: corev1.NodeExternalIP, Address: fmt.Sprintf("198.51.%d.%d", number/100, 10+number%100)},
			},
		},
	}
	for _, c := range change {
		c(n)
	}
	return n
}

func annotated(value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations[ingressnode.Annotation] = value }
}

// group returns the cloud's group of that name.
func (f *fixture) group(name string) (*cloudv1.NodeGroup, error) {
	list, err := f.cloud.Client.ListNodeGroups(f.t.Context(), cloudapi.ListOptions{Tags: map[string]string{
		ownership.ClusterUID: clusterUID, ownership.IngressGroup: name,
	}})
	if err != nil {
		return nil, err
	}
	if len(list.Items) != 1 {
		return nil, fmt.Errorf("%d groups", len(list.Items))
	}
	return &list.Items[0], nil
}

func (f *fixture) members(name string, want ...string) *cloudv1.NodeGroup {
	f.t.Helper()
	var found *cloudv1.NodeGroup
	env.Eventually(f.t, limit, fmt.Sprintf("members %v of %s", want, name), func(context.Context) error {
		group, err := f.group(name)
		if err != nil {
			return err
		}
		var got []string
		for _, m := range group.Members {
			got = append(got, m.InstanceID)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("members %v", got)
		}
		found = group
		return nil
	})
	return found
}

func (f *fixture) mustID(group string) string {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), limit)
	defer cancel()
	id, err := f.ID(ctx, group)
	if err != nil {
		f.t.Fatal(err)
	}
	return id
}

// look makes the controller check for drift and returns the calls up to then.
func (f *fixture) look() []string {
	f.t.Helper()
	calls := f.cloud.Calls()
	f.drift.ticks <- time.Now()
	const asked = "GET /v1/node-groups"
	env.Eventually(f.t, limit, "a look at the cloud", func(context.Context) error {
		fresh := f.cloud.Calls()
		calls = append(calls, fresh...)
		if !slices.Contains(fresh, asked) {
			return errors.New("not yet")
		}
		return nil
	})
	return calls
}

func TestGroupIsMadeWhenAskedFor(t *testing.T) {
	f := start(t, node(1), node(2, annotated("true")))
	id := f.mustID("default")
	group := f.members("default", "i-node-2")
	want := []cloudv1.GroupMember{{
		Key: "i-node-2", InstanceID: "i-node-2", Weight: 1, State: "active", Zone: "eu-1a",
		Addresses: []cloudv1.MemberAddress{{Family: "ipv4", Address: "10.0.0.12"}, {Family: "ipv6", Address: "fd00::2"}},
	}}
	if diff := cmp.Diff(want, group.Members); diff != "" || group.ID != id || group.Name != "dev-default" {
		t.Errorf("group %s (%s), want %s; members (-want +got):\n%s", group.Name, group.ID, id, diff)
	}
	f.cloud.Calls()
	if again := f.mustID("default"); again != id {
		t.Errorf("id %s, before it %s", again, id)
	}
	if calls := f.cloud.Calls(); len(calls) != 0 {
		t.Errorf("calls %v for what is known", calls)
	}
	if _, err := f.group("edge"); err == nil {
		t.Error("an unrequested group was created")
	}
}

func TestChangesOfAMomentAreOneWrite(t *testing.T) {
	f := start(t, node(1), node(2), node(3), node(4))
	f.mustID("default")
	f.members("default", "i-node-1", "i-node-2", "i-node-3", "i-node-4")
	f.cloud.Calls()
	f.put(node(1, annotated("true")))
	f.put(node(2, annotated("true")))
	f.put(node(3, annotated("edge")))
	f.members("default", "i-node-1", "i-node-2")
	if writes := cloud.Writes(f.cloud.Calls()); len(writes) != 1 {
		t.Errorf("writes %v, want 1", writes)
	}
	// A change that does not affect membership causes no sync.
	f.put(node(1, annotated("true"), func(n *corev1.Node) { n.Labels["example.com/x"] = "y" }))
	if writes := cloud.Writes(f.look()); len(writes) != 0 {
		t.Errorf("writes %v, want none", writes)
	}
}

func TestRestartWritesNothing(t *testing.T) {
	f := start(t, node(1, annotated("true")), node(2))
	f.mustID("default")
	before := f.members("default", "i-node-1")
	f.stop()
	f.cloud.Calls()
	f.run()
	f.mustID("default")
	if writes := cloud.Writes(f.cloud.Calls()); len(writes) != 0 {
		t.Errorf("writes %v, want none", writes)
	}
	if after := f.members("default", "i-node-1"); after.Revision != before.Revision {
		t.Errorf("revision %s, before it %s", after.Revision, before.Revision)
	}
}

// An invalid annotation moves no traffic, neither when it appears nor after a restart; it is reported once.
func TestBadAnnotation(t *testing.T) {
	f := start(t, node(1, annotated("true")), node(2), node(3))
	f.mustID("default")
	f.members("default", "i-node-1")
	f.put(node(1, annotated("yes please")))
	f.expectEvent(`invalid value "yes please": must be true, false or a list of groups`)
	// Another change triggers a new decision.
	f.put(node(3, annotated("edge")))
	f.mustID("edge")
	f.members("edge", "i-node-3")
	f.members("default", "i-node-1")

	f.stop()
	f.run()
	f.mustID("default")
	f.expectEvent("its membership in node groups is unchanged")
	f.members("default", "i-node-1")
	f.put(node(2, annotated("true")))
	f.members("default", "i-node-1", "i-node-2")
	f.put(node(1, annotated("false")))
	f.members("default", "i-node-2")
	if len(f.events.Events) != 0 {
		t.Errorf("another event: %s", <-f.events.Events)
	}
}

func (f *fixture) expectEvent(text string) {
	f.t.Helper()
	select {
	case event := <-f.events.Events:
		if !strings.Contains(event, text) {
			f.t.Errorf("event %q, want %q", event, text)
		}
	case <-time.After(limit):
		f.t.Errorf("no event with %q", text)
	}
}

// removeBehindOurBack removes a member from a group in the cloud.
func (f *fixture) removeBehindOurBack(group *cloudv1.NodeGroup, key string) {
	f.t.Helper()
	_, err := f.cloud.Client.PatchMembers(f.t.Context(), group.ID, cloudv1.MembersPatch{Remove: []string{key}},
		cloudapi.WriteOptions{IfMatch: group.Revision})
	if err != nil {
		f.t.Fatal(err)
	}
}

func TestDriftIsRepaired(t *testing.T) {
	f := start(t, node(1), node(2))
	f.mustID("default")
	f.removeBehindOurBack(f.members("default", "i-node-1", "i-node-2"), "i-node-1")
	f.look()
	f.members("default", "i-node-1", "i-node-2")
}

// Another writer changes the group between our read and our write: the write is rejected and repeated after another
// read.
func TestStaleRevision(t *testing.T) {
	f := start(t, node(1), node(2))
	f.mustID("default")
	f.removeBehindOurBack(f.members("default", "i-node-1", "i-node-2"), "i-node-1")
	f.put(node(2, annotated("false")))
	f.members("default", "i-node-1")
}

// A group that the cloud rejects fails its callers, does not delay other groups, and is retried.
func TestFailureOfOneGroup(t *testing.T) {
	f := start(t, node(1))
	f.cloud.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			cloud.Problem(w, http.StatusServiceUnavailable, cloudv1.CodeUnavailable)
		}
		return r.Method == http.MethodPost
	})
	if id, err := f.ID(t.Context(), "edge"); !cloudapi.HasCode(err, cloudv1.CodeUnavailable) {
		t.Fatalf("ID = %q, %v; want the cloud's error", id, err)
	}
	f.cloud.Intercept(nil)
	f.mustID("default")
	f.members("edge", "i-node-1")
}

func TestTwoGroupsOfOneNameAreAnError(t *testing.T) {
	f := start(t, node(1))
	f.mustID("default")
	tags := map[string]string{ownership.ClusterUID: clusterUID, ownership.IngressGroup: "default"}
	if _, err := f.cloud.Client.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{Name: "copy", Tags: tags}, cloudapi.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.stop()
	f.run()
	if id, err := f.ID(t.Context(), "default"); err == nil || !strings.Contains(err.Error(), "both have the tag") {
		t.Errorf("ID = %q, %v; want an error that names both", id, err)
	}
	// The error concerns only this group and disappears with its cause.
	f.mustID("edge")
	f.members("edge", "i-node-1")
	group, err := f.cloud.Client.ListNodeGroups(t.Context(), cloudapi.ListOptions{Name: "copy"})
	if err == nil {
		err = f.cloud.Client.DeleteNodeGroup(t.Context(), group.Items[0].ID, cloudapi.WriteOptions{IfMatch: group.Items[0].Revision})
	}
	if err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, limit, "id of default", func(ctx context.Context) error {
		_, err := f.ID(ctx, "default")
		return err
	})
}

// A crash after the creation, before the ID is known: the group exists once.
func TestCrashAfterCreate(t *testing.T) {
	f := start(t, node(1))
	f.cloud.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		f.cloud.Serve(w, r)
		panic(http.ErrAbortHandler)
	})
	if id, err := f.ID(t.Context(), "default"); err == nil {
		t.Fatalf("ID = %q though the answer was lost", id)
	}
	f.cloud.Intercept(nil)
	f.mustID("default")
	f.members("default", "i-node-1")
}

// stepped is a clock that the test drives, without checks for drift.
type stepped struct{ *clocktesting.FakeClock }

func (s stepped) NewTicker(period time.Duration) clock.Ticker {
	if period != driftPeriod {
		return s.FakeClock.NewTicker(period)
	}
	return &drift{}
}

// Members that the brake holds leave later although nothing else happens.
func TestBrakeReleasesLater(t *testing.T) {
	c := stepped{clocktesting.NewFakeClock(time.Now())}
	begin := c.Now()
	f := startWith(t, &fixture{clock: c, percent: 10}, node(1, annotated("true")), node(2))
	group := f.withMember(f.mustID("default"), "i-node-2")
	if len(group.Members) != 2 {
		t.Fatalf("members %v, want both", group.Members)
	}
	f.stop()
	f.run()
	f.mustID("default")
	env.Eventually(t, limit, "the departure of i-node-2", func(context.Context) error {
		group, err := f.group("default")
		if err == nil && len(group.Members) != 1 {
			c.Step(time.Second)
			err = fmt.Errorf("members %v", group.Members)
		}
		return err
	})
	if passed := c.Since(begin); passed < time.Minute {
		t.Errorf("it left after %v, want a minute", passed)
	}
}

// withMember adds the member with a Node's instance to the group, as if it had been there before.
func (f *fixture) withMember(id, instance string) *cloudv1.NodeGroup {
	f.t.Helper()
	ctx := f.t.Context()
	group, err := f.cloud.Client.NodeGroup(ctx, id)
	if err == nil {
		group, err = f.cloud.Client.PatchMembers(ctx, id, cloudv1.MembersPatch{Upsert: []cloudv1.GroupMember{{
			Key: instance, InstanceID: instance, Weight: 1, State: cloudv1.MemberActive, Zone: "eu-1a",
			Addresses: []cloudv1.MemberAddress{{Family: cloudv1.FamilyIPv4, Address: "10.0.0.12"}},
		}}}, cloudapi.WriteOptions{IfMatch: group.Revision})
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return group
}
