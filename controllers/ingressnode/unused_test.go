package ingressnode_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/test/harness/cloud"
)

// groups returns the names of the groups in the cloud, in order.
func (s *steps) groups() []string {
	s.t.Helper()
	list, err := s.cloud.Client.ListNodeGroups(s.t.Context(), cloudapi.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for _, g := range list.Items {
		names = append(names, g.Name)
	}
	slices.Sort(names)
	s.cloud.Calls()
	return names
}

func (s *steps) expectGroups(when string, want ...string) {
	s.t.Helper()
	if got := s.groups(); !slices.Equal(got, want) {
		s.t.Errorf("groups %v %s, want %v", got, when, want)
	}
}

// A group that no Service asks for is deleted after half an hour; one that pools refer to is not.
func TestUnusedGroups(t *testing.T) {
	s := stepwise(t, 1)
	s.put(node(1))
	s.begin()
	s.Request("edge")
	s.Request("inner")
	s.sync()
	refer(t, s.cloud, "dev-inner")
	s.pass(59 * time.Minute)
	s.expectGroups("within half an hour after half an hour without a request", "dev-default", "dev-edge", "dev-inner")
	s.pass(2 * time.Minute)
	s.expectGroups("later", "dev-default", "dev-inner")
	writes := 0
	for range 12 {
		s.pass(10 * time.Minute)
		writes += len(cloud.Writes(s.cloud.Calls()))
	}
	if writes > 4 {
		t.Errorf("%d attempts to delete a used group in two hours, want one per half an hour", writes)
	}
	s.expectGroups("in the end", "dev-default", "dev-inner")

	s.Request("edge")
	s.sync()
	s.expectGroups("once requested again", "dev-default", "dev-edge", "dev-inner")
	s.pass(29 * time.Minute)
	s.Request("edge")
	s.pass(50 * time.Minute)
	s.ask("edge")
	s.pass(3 * time.Hour)
	s.expectGroups("while a Service asks for it", "dev-default", "dev-edge", "dev-inner")
}

// refer creates a load balancer whose pool refers to the group of that name.
func refer(t *testing.T, c *cloud.Cloud, name string) {
	t.Helper()
	list, err := c.Client.ListNodeGroups(t.Context(), cloudapi.ListOptions{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = c.Client.CreateLoadBalancer(t.Context(), cloudv1.LoadBalancerSpec{Name: "web", LoadBalancerFields: cloudv1.LoadBalancerFields{
		Scheme: cloudv1.SchemePublic, Listeners: []cloudv1.Listener{},
		Pools: []cloudv1.Pool{{
			Key: "tcp/80", Family: cloudv1.FamilyIPv4, Protocol: cloudv1.ProtocolTCP, Algorithm: "round_robin", TargetPort: 30080,
			NodeGroupID: list.Items[0].ID,
		}},
	}}, cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// Requests that fail are forgotten if no Service repeats them for half an hour, with everything about their groups.
func TestFailedRequests(t *testing.T) {
	s := stepwise(t, 1)
	s.put(node(1))
	s.begin()
	s.cloud.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || r.URL.Path != "/v1/node-groups" {
			return false
		}
		cloud.Problem(w, http.StatusUnprocessableEntity, cloudv1.CodeInvalid)
		return true
	})
	for i := range 20 {
		s.Request(fmt.Sprintf("refused-%d", i))
	}
	if _, err := s.Sync(s.quiet(), true); err == nil {
		t.Fatal("no error")
	}
	s.clock.Step(31 * time.Minute)
	if _, err := s.Sync(s.quiet(), true); err != nil {
		t.Errorf("error %v, want none of groups that no Service asks for", err)
	}
	if n := s.Remembered(); n != 1 {
		t.Errorf("%d groups are remembered, want 1", n)
	}
}

// A Service cannot make the cluster create any number of groups, and its error says what to do.
func TestTooManyGroups(t *testing.T) {
	f := start(t, node(1))
	for i := range 10 {
		f.mustID(fmt.Sprintf("group-%d", i))
	}
	f.cloud.Calls()
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, err := f.ID(ctx, "extra")
		cancel()
		if !errors.Is(err, ingressnode.ErrTooManyGroups) ||
			!strings.Contains(err.Error(), `group "extra" is not created, because the cluster has 10 already; use one of them, or raise ingressNodes.maxGroups`) {
			t.Fatalf("error %v", err)
		}
	}
	if calls := f.cloud.Calls(); len(calls) != 0 {
		t.Errorf("calls %v for a group that cannot be created", calls)
	}
	f.mustID("group-3")
}

// One namespace leaves half of the groups to the others, also if its Services do not need its groups any more.
func TestGroupsOfOneNamespace(t *testing.T) {
	s := stepwise(t, 1)
	s.put(node(1))
	create := func(namespace, group string) {
		s.ask(group, namespace)
		s.Request(group)
		if _, err := s.Sync(s.quiet(), true); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 8 {
		create("crowd", fmt.Sprintf("crowd-%d", i))
	}
	want := []string{"dev-crowd-0", "dev-crowd-1", "dev-crowd-2", "dev-crowd-3", "dev-crowd-4"}
	s.expectGroups("of a namespace that asks for 8", want...)
	if err := s.services.Replace(nil, ""); err != nil {
		t.Fatal(err)
	}
	create("crowd", "crowd-9")
	s.expectGroups("of a namespace that has left 5", want...)
	create("default", "default")
	s.expectGroups("once another namespace asks for one", append(want, "dev-default")...)
}

// However many Services there are, a change of a Node costs at most three calls, and none if the Node serves no group.
func TestCallsPerChange(t *testing.T) {
	marked := annotated
	s := stepwise(t, 20, func(o *ingressnode.Options) { o.MaxRemovedPercent = 100 })
	s.put(each(10, marked("true"))...)
	s.put(node(11, marked("edge")), node(12), node(13, annotated("false")), node(14))
	for i := range 200 {
		svc := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
		svc.Name, svc.Namespace = fmt.Sprintf("service-%d", i), "default"
		if err := s.services.Add(svc); err != nil {
			t.Fatal(err)
		}
	}
	s.begin()
	s.Request("edge")
	s.sync()
	for _, step := range []struct {
		name   string
		change *corev1.Node
		most   int
	}{
		{"a member fails", node(1, marked("true"), status(corev1.ConditionFalse)), 1},
		{"a member recovers", node(1, marked("true")), 1},
		{"a Node is marked", node(12, marked("true")), 2},
		{"a member changes its group", node(12, marked("edge")), 2},
		{"a member is unmarked", node(12), 1},
		{"an unmarked Node fails", node(14, status(corev1.ConditionFalse)), 0},
		{"a Node that never serves fails", node(13, annotated("false"), status(corev1.ConditionFalse)), 0},
		{"an unmarked Node joins", node(15), 0},
		{"a marked Node joins both groups", node(16, marked("default,edge")), 3},
	} {
		s.cloud.Calls()
		s.put(step.change)
		s.sync()
		if calls := s.cloud.Calls(); len(calls) > step.most {
			t.Errorf("%s: calls %v, want at most %d", step.name, calls, step.most)
		}
	}
}

// Five hundred Nodes that join within ten seconds are at most sixty calls.
func TestCallsOfManyNodes(t *testing.T) {
	const count, within = 500, 10 * time.Second
	s := stepwise(t, count)
	s.begin()
	var joined int
	// The controller syncs at most once per half a second.
	for range int(within / (500 * time.Millisecond)) {
		for range count / 20 {
			joined++
			s.put(node(joined))
		}
		s.clock.Step(500 * time.Millisecond)
		s.sync()
	}
	calls := s.cloud.Calls()
	s.count(count, "in the end")
	if len(calls) > 60 {
		t.Errorf("%d calls, want at most 60", len(calls))
	}
	t.Logf("%d calls", len(calls))
}
