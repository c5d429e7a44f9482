package ingressnode_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/mirror"
	"quaymaster.dev/provider/nodegroup"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/providerid"
	"quaymaster.dev/test/harness/cloud"
)

// steps is a Controller that syncs when the test says so, on the test's clock.
type steps struct {
	*ingressnode.Controller
	t        *testing.T
	cloud    *cloud.Cloud
	clock    *clocktesting.FakeClock
	events   *record.FakeRecorder
	nodes    cache.Indexer
	services cache.Indexer
	options  ingressnode.Options
}

// stepwise returns the Controller of a cloud with count instances, after the first minute.
func stepwise(t *testing.T, count int, change ...func(*ingressnode.Options)) *steps {
	t.Helper()
	s := &steps{t: t, cloud: cloud.Start(t, 0, instances(count)...), clock: clocktesting.NewFakeClock(time.Now())}
	s.restart(change...)
	return s
}

// restart replaces the Controller by one that knows nothing. Nodes and Services are as before.
func (s *steps) restart(change ...func(*ingressnode.Options)) {
	s.t.Helper()
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: clusterUID}})
	factory := informers.NewSharedInformerFactory(client, 0).Core().V1()
	s.events = record.NewFakeRecorder(1000)
	cluster := ownership.NewCluster(client.CoreV1())
	unused := mirror.New(mirror.Options{Cloud: s.cloud.Client, Cluster: cluster})
	s.options = ingressnode.Options{
		Groups:   nodegroup.New(s.cloud.Client, unused.NodeGroups, cluster, "dev"),
		Machines: nodegroup.NewMachines(s.cloud.Client, unused),
		Nodes:    factory.Nodes(), Services: factory.Services(), Recorder: s.events, InstanceID: providerid.Parse,
		FallbackAll: true, MaxRemovedPercent: 10, MaxGroups: 10, Clock: s.clock,
	}
	for _, c := range change {
		c(&s.options)
	}
	var err error
	if s.Controller, err = ingressnode.New(s.options); err != nil {
		s.t.Fatal(err)
	}
	nodes, services := s.nodes, s.services
	s.nodes, s.services = factory.Nodes().Informer().GetIndexer(), factory.Services().Informer().GetIndexer()
	for from, to := range map[cache.Indexer]cache.Indexer{nodes: s.nodes, services: s.services} {
		if from == nil {
			continue
		}
		if err := to.Replace(from.List(), ""); err != nil {
			s.t.Fatal(err)
		}
	}
}

// put creates or replaces Nodes.
func (s *steps) put(nodes ...*corev1.Node) {
	s.t.Helper()
	for _, n := range nodes {
		if err := s.nodes.Update(n); err != nil {
			s.t.Fatal(err)
		}
	}
}

// each returns count Nodes.
func each(count int, change ...func(*corev1.Node)) []*corev1.Node {
	var list []*corev1.Node
	for i := 1; i <= count; i++ {
		list = append(list, node(i, change...))
	}
	return list
}

func status(status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Conditions[0].Status = status }
}

// quiet returns a context without logger.
func (s *steps) quiet() context.Context { return klog.NewContext(s.t.Context(), klog.Logger{}) }

// sync syncs and returns when the Controller wants to sync again.
func (s *steps) sync() time.Duration {
	s.t.Helper()
	next, err := s.Sync(s.quiet(), false)
	if err != nil {
		s.t.Fatal(err)
	}
	return next
}

// pass lets time pass, with the syncs that the Controller wants and those for drift.
func (s *steps) pass(d time.Duration) {
	s.t.Helper()
	for end := s.clock.Now().Add(d); ; {
		next, err := s.Sync(s.quiet(), true)
		if err != nil {
			s.t.Fatal(err)
		}
		step := driftPeriod
		if next > 0 {
			step = min(step, next)
		}
		if left := end.Sub(s.clock.Now()); step > left {
			s.clock.Step(left)
			s.sync()
			return
		}
		s.clock.Step(step)
	}
}

// ask creates a Service that asks for a group, in the namespace default unless another one is given.
func (s *steps) ask(group string, namespace ...string) {
	s.t.Helper()
	err := s.services.Update(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: group, Namespace: append(namespace, "default")[0], Annotations: map[string]string{"service.beta.kubernetes.io/dlb-ingress-group": group},
		},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// begin requests the group default, which a Service asks for, and lets the first minute pass, in which the brake holds every member.
func (s *steps) begin() {
	s.t.Helper()
	s.ask("default")
	s.Request("default")
	s.sync()
	s.clock.Step(time.Minute)
	s.cloud.Calls()
}

// members returns the members of a group by instance.
func (s *steps) members(group string) map[string]cloudv1.GroupMember {
	s.t.Helper()
	list, err := s.cloud.Client.ListNodeGroups(s.t.Context(), cloudapi.ListOptions{Tags: map[string]string{
		ownership.ClusterUID: clusterUID, ownership.IngressGroup: group,
	}})
	if err != nil || len(list.Items) != 1 {
		s.t.Fatalf("%d groups %s, %v", len(list.Items), group, err)
	}
	found := map[string]cloudv1.GroupMember{}
	for _, m := range list.Items[0].Members {
		found[m.InstanceID] = m
	}
	s.cloud.Calls()
	return found
}

func (s *steps) count(want int, when string) {
	s.t.Helper()
	if got := len(s.members("default")); got != want {
		s.t.Errorf("%d members %s, want %d", got, when, want)
	}
}

// emitted returns the Events so far with that reason.
func (s *steps) emitted(reason string) []string {
	var list []string
	for len(s.events.Events) > 0 {
		if event := <-s.events.Events; strings.Contains(event, " "+reason+" ") {
			list = append(list, event)
		}
	}
	return list
}

// The kubelets of 99 in 100 Nodes are not heard from: the health checks of load balancers decide, not we.
func TestSilentNodesStay(t *testing.T) {
	s := stepwise(t, 100)
	s.put(each(100)...)
	s.begin()
	s.put(each(100, status(corev1.ConditionUnknown))...)
	s.put(node(100))
	s.pass(10 * time.Minute)
	s.count(100, "after ten minutes without news")
	if writes := cloud.Writes(s.cloud.Calls()); len(writes) != 0 {
		t.Errorf("writes %v, want none", writes)
	}
}

// 99 in 100 Nodes are not ready: they leave within the brake, visibly, and stay if they recover.
func TestBrakeHoldsFailedNodes(t *testing.T) {
	s := stepwise(t, 100)
	s.put(each(100)...)
	s.begin()
	s.put(each(100, status(corev1.ConditionFalse))...)
	s.put(node(100))
	next := s.sync()
	s.count(90, "after the first sync")
	if next != time.Minute {
		t.Errorf("next sync after %v, want one minute", next)
	}
	if events := s.emitted("IngressNodesHeld"); len(events) != 1 || !strings.Contains(events[0], "99 nodes would leave ingress group default at once; 10%") {
		t.Errorf("events %q, want one about 99 nodes", events)
	}
	s.clock.Step(59 * time.Second)
	s.sync()
	s.count(90, "within a minute")
	s.clock.Step(time.Second)
	s.sync()
	s.count(81, "after a minute")
	if events := s.emitted("IngressNodesHeld"); len(events) != 0 {
		t.Errorf("events %q while the brake goes on holding", events)
	}
	s.put(each(100)...)
	s.sync()
	s.count(100, "after recovery")
	s.pass(time.Hour)
	s.count(100, "an hour later")
}

// TestResumedLeaveAtOnce: an operator lifts the limit for a while.
func TestResumedLeaveAtOnce(t *testing.T) {
	resumed := false
	s := stepwise(t, 100, func(o *ingressnode.Options) { o.Resumed = func() bool { return resumed } })
	s.put(each(100)...)
	s.begin()
	s.put(each(99, status(corev1.ConditionFalse))...)
	s.sync()
	s.count(90, "before")
	resumed = true
	s.sync()
	s.count(1, "after")
	resumed = false
	s.put(each(100)...)
	s.clock.Step(time.Minute)
	s.sync()
	s.put(each(99, status(corev1.ConditionFalse))...)
	s.sync()
	s.count(90, "when the limit holds again")
}

// A person marks the first ingress node: the others leave one after the other, and the marked one is never missing.
func TestFirstMarkMovesThePoolGradually(t *testing.T) {
	s := stepwise(t, 20)
	s.put(each(19)...)
	s.begin()
	s.put(node(20, annotated("true")))
	if next := s.sync(); next > time.Second {
		t.Errorf("next sync after %v, want at once", next)
	}
	s.count(20, "when the marked node joins")
	s.sync()
	s.count(18, "in the first minute")
	if events := s.emitted("IngressNodesHeld"); len(events) != 1 || !strings.Contains(events[0], "19 nodes would leave ingress group default at once") {
		t.Errorf("events %q, want one about 19 nodes", events)
	}
	s.pass(3 * time.Minute)
	if got := len(s.members("default")); got < 13 || got > 16 {
		t.Errorf("%d members after three minutes, want about one in ten less per minute", got)
	}
	s.pass(30 * time.Minute)
	if got := s.members("default"); len(got) != 1 || got["i-node-20"].Key == "" {
		t.Errorf("members %v, want the marked one", got)
	}
}

// What a person or the cluster has decided about a Node takes effect at once, even for the last member.
func TestDecisionsTakeEffectAtOnce(t *testing.T) {
	for name, leave := range map[string]func(s *steps, number int){
		"never": func(s *steps, number int) { s.put(node(number, annotated("false"))) },
		"excluded": func(s *steps, number int) {
			s.put(node(number, func(n *corev1.Node) { n.Labels[corev1.LabelNodeExcludeBalancers] = "" }))
		},
		"unmarked": func(s *steps, number int) { s.put(node(number)) },
		"moved":    func(s *steps, number int) { s.put(node(number, annotated("edge"))) },
		"deleted": func(s *steps, number int) {
			s.NoteDeletion(node(number))
			s.remove(number)
		},
		"deleted with its instance": func(s *steps, number int) {
			if _, err := s.cloud.Client.DeleteInstance(s.t.Context(), fmt.Sprintf("i-node-%d", number), cloudapi.WriteOptions{}); err != nil {
				s.t.Fatal(err)
			}
			s.remove(number)
			s.clock.Step(driftPeriod)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := stepwise(t, 10, func(o *ingressnode.Options) { o.FallbackAll = false })
			s.put(each(10, annotated("true"))...)
			s.begin()
			s.put(node(10))
			for i := 1; i <= 8; i++ {
				leave(s, i)
			}
			s.sync()
			if got := s.members("default"); len(got) != 1 || got["i-node-9"].Key == "" {
				t.Errorf("members %v, want the one that did not leave", got)
			}
		})
	}
}

// remove removes a Node from the cache, as any way of losing it does.
func (s *steps) remove(numbers ...int) {
	s.t.Helper()
	for _, number := range numbers {
		if err := s.nodes.Delete(node(number)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// A list without Nodes, or with few, is no proof that they were deleted.
func TestShrunkenListOfNodes(t *testing.T) {
	s := stepwise(t, 20)
	s.put(each(20)...)
	s.begin()
	for i := 1; i <= 20; i++ {
		// The informer reports this for a Node that a list lacks.
		s.NoteDeletion(cache.DeletedFinalStateUnknown{Key: fmt.Sprintf("node-%d", i), Obj: node(i)})
		s.remove(i)
	}
	s.pass(time.Hour)
	s.count(20, "without any Node")
	s.put(node(20))
	s.sync()
	s.count(18, "with a list of one")
	s.put(each(20)...)
	s.sync()
	s.count(20, "with all Nodes")
	s.remove(1)
	s.pass(2 * time.Minute)
	s.count(19, "when one is missing")
}

// After a restart it is unknown how many have left: none leaves for a minute.
func TestRestartDoesNotReleaseTheBrake(t *testing.T) {
	s := stepwise(t, 10)
	s.put(each(10)...)
	s.begin()
	s.put(each(9, status(corev1.ConditionFalse))...)
	s.sync()
	s.count(9, "before the restart")
	for range 5 {
		s.restart()
		s.Request("default")
		s.sync()
		s.clock.Step(time.Second)
	}
	s.count(9, "after restarts")
}

func TestHandSetMembersAreRepaired(t *testing.T) {
	s := stepwise(t, 3)
	s.put(each(3)...)
	s.begin()
	members := s.members("default")
	heavy, draining := members["i-node-1"], members["i-node-2"]
	heavy.Weight, draining.State = 200, cloudv1.MemberDraining
	s.patch(heavy, draining)
	s.pass(driftPeriod)
	for id, m := range s.members("default") {
		if m.Weight != 1 || m.State != cloudv1.MemberActive {
			t.Errorf("member %s has weight %d and is %s", id, m.Weight, m.State)
		}
	}
}

// A group that has lost its tags in the cloud is another owner's: one with all members takes its place, and the load
// balancers that refer to it are to follow.
func TestGroupThatLostItsTags(t *testing.T) {
	s := stepwise(t, 3)
	moved := 0
	s.OnMoved(func() { moved++ })
	s.put(each(3)...)
	s.begin()
	s.pass(driftPeriod)
	if moved != 0 {
		t.Fatal("moved at the start")
	}
	list, err := s.cloud.Client.ListNodeGroups(t.Context(), cloudapi.ListOptions{Name: "dev-default"})
	if err != nil {
		t.Fatal(err)
	}
	g := list.Items[0]
	spec := cloudv1.NodeGroupSpec{Name: g.Name, Members: g.Members}
	_, err = s.cloud.Client.UpdateNodeGroup(t.Context(), g.ID, spec, cloudapi.WriteOptions{IfMatch: g.Revision})
	if err != nil {
		t.Fatal(err)
	}
	s.pass(driftPeriod)
	if members := s.members("default"); len(members) != 3 || moved != 1 {
		t.Errorf("%d members, moved %d times; want 3 in the new group, once", len(members), moved)
	}
	s.pass(driftPeriod)
	if moved != 1 {
		t.Errorf("moved %d times", moved)
	}
}

// patch changes members of the group default behind the Controller's back.
func (s *steps) patch(members ...cloudv1.GroupMember) {
	s.t.Helper()
	list, err := s.cloud.Client.ListNodeGroups(s.t.Context(), cloudapi.ListOptions{Name: "dev-default"})
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = s.cloud.Client.PatchMembers(s.t.Context(), list.Items[0].ID, cloudv1.MembersPatch{Upsert: members},
		cloudapi.WriteOptions{IfMatch: list.Items[0].Revision})
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestDraining(t *testing.T) {
	scaledDown := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}
	}
	deleting := func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: time.Now()} }
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	for name, tc := range map[string]struct {
		change func(*corev1.Node)
		policy bool
		drains bool
	}{
		"scaled down":           {change: scaledDown, drains: true},
		"being deleted":         {change: deleting, drains: true},
		"cordoned":              {change: cordoned},
		"cordoned, with policy": {change: cordoned, policy: true, drains: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := stepwise(t, 3, func(o *ingressnode.Options) { o.DrainCordoned = tc.policy })
			s.put(each(3)...)
			s.begin()
			state := func() string { return s.members("default")["i-node-1"].State }
			s.put(node(1, tc.change))
			s.sync()
			if !tc.drains {
				s.pass(time.Hour)
				if got := state(); got != cloudv1.MemberActive {
					t.Errorf("the member is %q, want active", got)
				}
				return
			}
			if got := state(); got != cloudv1.MemberDraining {
				t.Fatalf("the member is %q, want draining", got)
			}
			s.put(node(1))
			s.sync()
			if got := state(); got != cloudv1.MemberActive {
				t.Errorf("the member is %q after a change of mind, want active", got)
			}
			s.put(node(1, tc.change))
			s.sync()
			s.clock.Step(5*time.Minute - time.Second)
			if next := s.sync(); next != time.Second {
				t.Errorf("next sync after %v, want when the drain ends", next)
			}
			if got := state(); got != cloudv1.MemberDraining {
				t.Errorf("the member is %q within five minutes, want draining", got)
			}
			s.clock.Step(time.Second)
			s.sync()
			if got := state(); got != "" {
				t.Errorf("the member is %q after five minutes, want none", got)
			}
			s.pass(time.Hour)
			s.count(2, "as long as the node is about to leave")
		})
	}
}

// A kubelet reports its own addresses: one that the cloud has not assigned to the instance gets no traffic.
func TestForeignAddress(t *testing.T) {
	s := stepwise(t, 3)
	stolen := func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.200"}}
	}
	s.put(node(1), node(2), node(3, stolen))
	s.begin()
	s.count(2, "with a foreign address")
	s.put(node(2, stolen))
	s.pass(5 * time.Minute)
	for id, m := range s.members("default") {
		if slices.ContainsFunc(m.Addresses, func(a cloudv1.MemberAddress) bool { return a.Address == "10.0.0.200" }) {
			t.Errorf("member %s has the foreign address", id)
		}
	}
	s.count(2, "after a member has claimed a foreign address")
	if events := s.emitted("AddressNotInCloud"); len(events) != 2 || !strings.Contains(events[0], "10.0.0.200") {
		t.Errorf("events %q, want one for each node", events)
	}
	s.put(node(3))
	s.sync()
	s.count(3, "with the right address")
}

// While the cloud does not answer about instances, members stay and no Node joins; later it does.
func TestInstancesUnread(t *testing.T) {
	s := stepwise(t, 3)
	s.put(node(1))
	s.begin()
	s.cloud.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, ":lookup") {
			return false
		}
		cloud.Problem(w, http.StatusForbidden, cloudv1.CodeForbidden)
		return true
	})
	s.clock.Step(time.Hour)
	s.put(node(2))
	if _, err := s.Sync(s.quiet(), true); err == nil {
		t.Error("no error, so the controller would not retry")
	}
	s.count(1, "without an answer")
	s.cloud.Intercept(nil)
	s.sync()
	s.count(2, "with an answer")
}

// A cloud that is restored to the state before a write has the revision of that state again. So after a write, what the
// cloud has is read whole, whatever its revision.
func TestLostWrite(t *testing.T) {
	s := stepwise(t, 2)
	s.put(node(1))
	s.begin()
	s.drift() // reads what was written
	s.put(node(2))
	s.sync()
	s.count(2, "after a Node joined")
	var known []string
	s.cloud.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/node-groups") {
			known = append(known, r.Header.Get("If-None-Match"))
		}
		return false
	})
	s.drift()
	s.drift()
	if len(known) != 2 || known[0] != "" || known[1] == "" {
		t.Errorf("lists with the revisions %q, want one without and one with it", known)
	}
}

// drift syncs and checks for changes by others.
func (s *steps) drift() {
	s.t.Helper()
	if _, err := s.Sync(s.quiet(), true); err != nil {
		s.t.Fatal(err)
	}
}

// instance returns a Node of an instance that the inventory lacks.
func instance(name, id string) *corev1.Node {
	n := node(1)
	n.Name, n.UID, n.Spec.ProviderID = name, types.UID(name), "mycloud://"+id
	return n
}

// An instance that the cloud does not know is no reason to remove a member, and none to add one.
func TestUnknownInstance(t *testing.T) {
	s := stepwise(t, 2)
	s.put(node(1), instance("stranger", "i-stranger"))
	s.begin()
	s.count(1, "with an instance that the cloud does not know")
	s.patch(cloudv1.GroupMember{
		Key: "i-stranger", InstanceID: "i-stranger", Weight: 1, State: cloudv1.MemberActive, Zone: "eu-1a",
		Addresses: []cloudv1.MemberAddress{{Family: cloudv1.FamilyIPv4, Address: "10.0.0.99"}},
	})
	s.pass(time.Hour)
	s.count(2, "with a member that the cloud does not know")
}

// TestFailureSettlesTheOthers: while a group fails for good, the decisions about Nodes that the others have followed do not
// count again. Otherwise, Nodes that fail or disappear later would leave all at once.
func TestFailureSettlesTheOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		// decide makes Nodes leave default, or allows it, and undo ends that; then they fail.
		decide, undo, fail func(s *steps, number int)
	}{
		"deletions": {
			decide: func(s *steps, number int) {
				s.NoteDeletion(node(number))
				s.remove(number)
			},
			undo: func(s *steps, number int) { s.put(node(number)) },
			fail: func(s *steps, number int) { s.remove(number) },
		},
		"marks": {
			decide: func(s *steps, number int) { s.put(node(number, annotated("default"))) },
			undo:   func(s *steps, number int) { s.put(node(number)) },
			fail:   func(s *steps, number int) { s.put(node(number, status(corev1.ConditionFalse))) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := stepwise(t, 10)
			s.put(each(10)...)
			s.begin()
			s.cloud.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPost && r.URL.Path == "/v1/node-groups" {
					cloud.Problem(w, http.StatusForbidden, cloudv1.CodeForbidden)
					return true
				}
				return false
			})
			s.ask("broken")
			s.Request("broken")
			for _, change := range []func(*steps, int){tc.decide, tc.undo} {
				for i := 1; i <= 8; i++ {
					change(s, i)
				}
				for range 2 {
					if _, err := s.Sync(s.quiet(), false); err == nil {
						t.Fatal("the group is not broken")
					}
					s.clock.Step(time.Minute)
				}
			}
			s.count(10, "before they fail")
			for i := 1; i <= 8; i++ {
				tc.fail(s, i)
			}
			if _, err := s.Sync(s.quiet(), false); err == nil {
				t.Fatal("the group is not broken")
			}
			s.count(9, "after they have failed")
		})
	}
}
