package nodegroup_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/mirror"
	"quaymaster.dev/provider/nodegroup"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/harness/cloud"
)

const clusterUID = "c1a5e000-0000-4000-8000-000000000001"

func groupsOf(c *cloud.Cloud) *nodegroup.Groups {
	groups, _ := mirrored(c)
	return groups
}

// mirrored returns groups with the mirror that they use, which does not run.
func mirrored(c *cloud.Cloud) (*nodegroup.Groups, *mirror.Mirror) {
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: clusterUID}})
	cluster := ownership.NewCluster(client.CoreV1())
	m := mirror.New(mirror.Options{Cloud: c.Client, Cluster: cluster})
	return nodegroup.New(c.Client, m.NodeGroups, cluster, "dev"), m
}

// eventually waits until check returns nil.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatalf("wait for %s: %v", what, err)
}

// run runs a mirror until the test ends.
func run(t *testing.T, m *mirror.Mirror) {
	t.Helper()
	var running sync.WaitGroup
	running.Go(func() { m.Run(t.Context()) })
	t.Cleanup(running.Wait)
	eventually(t, "the mirror", func() error {
		if !m.Synced() {
			return errors.New("it is not filled")
		}
		return nil
	})
}

// TestQuiet: with a mirror that follows the cloud, a second list needs no request until another client
// changes a group; without since, or while the cloud does not answer, it always does.
func TestQuiet(t *testing.T) {
	c := cloud.Start(t, 0)
	groups, m := mirrored(c)
	run(t, m)
	if _, err := groups.Create(t.Context(), "default", ""); err != nil {
		t.Fatal(err)
	}
	reads := func(since string) (revision string, changed bool, reads int) {
		t.Helper()
		c.Calls()
		_, revision, changed, err := groups.List(t.Context(), since)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range c.Calls() {
			if call == "GET /v1/node-groups" {
				reads++
			}
		}
		return revision, changed, reads
	}
	quiet := func(revision string) {
		t.Helper()
		eventually(t, "a list without a request", func() error {
			if _, changed, n := reads(revision); n > 0 || changed {
				return errors.New("the groups were read")
			}
			return nil
		})
	}
	revision, _, _ := reads("")
	quiet(revision)
	if _, changed, n := reads(""); n != 1 || !changed {
		t.Errorf("without since: %d reads, changed %t", n, changed)
	}
	if _, err := c.Client.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{Name: "theirs"},
		cloudapi.WriteOptions{IdempotencyKey: "theirs"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a list of the change", func() error {
		if _, changed, n := reads(revision); n != 1 || !changed {
			return errors.New("the groups were not read")
		}
		return nil
	})
	revision, _, _ = reads("")
	quiet(revision)
	c.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v1/node-groups" {
			return false
		}
		cloud.Problem(w, http.StatusServiceUnavailable, cloudv1.CodeUnavailable)
		return true
	})
	// This change ends the request that the cloud holds; the next one fails.
	if _, err := c.Client.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{Name: "other"},
		cloudapi.WriteOptions{IdempotencyKey: "other"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the outage", func() error {
		if m.Err() == nil {
			return errors.New("not noticed")
		}
		return nil
	})
	for range 2 {
		if revision, _, n := reads(revision); n != 1 {
			t.Errorf("during the outage: %d reads since %s", n, revision)
		}
	}
}

// The cloud accepts a thousand members per request.
func TestLargeGroup(t *testing.T) {
	c := cloud.Start(t, 0)
	groups := groupsOf(c)
	ctx := t.Context()
	var members []ingressnode.Member
	var ids []string
	for i := range 1500 {
		id := fmt.Sprintf("i-%04d", i)
		ids = append(ids, id)
		members = append(members, ingressnode.Member{
			InstanceID: id, Zone: "eu-1a", Weight: 1, Draining: i%2 == 0, Addresses: []string{fmt.Sprintf("10.1.%d.%d", i/250, i%250), fmt.Sprintf("fd00::%x", i+1)},
		})
	}
	empty, err := groups.Create(ctx, "default", "")
	if err != nil {
		t.Fatal(err)
	}
	c.Calls()
	made, err := groups.Change(ctx, empty, members, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(members, made.Members); diff != "" {
		t.Fatalf("unexpected members (-want +got):\n%s", diff)
	}
	if writes := cloud.Writes(c.Calls()); len(writes) != 2 {
		t.Errorf("writes %v, want 2", writes)
	}
	changed, err := groups.Change(ctx, made, members[:600], ids[600:], "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(members[:600], changed.Members); diff != "" {
		t.Errorf("unexpected members (-want +got):\n%s", diff)
	}
	if writes := cloud.Writes(c.Calls()); len(writes) != 2 {
		t.Errorf("writes %v, want 2", writes)
	}
}

func TestList(t *testing.T) {
	c := cloud.Start(t, 0)
	groups := groupsOf(c)
	ctx := t.Context()
	made, err := groups.Create(ctx, "edge", "")
	if err != nil {
		t.Fatal(err)
	}
	for name, tags := range map[string]map[string]string{
		"of another cluster": {ownership.ClusterUID: "other", ownership.IngressGroup: "edge"},
		"not of ingress":     {ownership.ClusterUID: clusterUID},
	} {
		if _, err := c.Client.CreateNodeGroup(ctx, cloudv1.NodeGroupSpec{Name: name, Tags: tags}, cloudapi.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	list, revision, changed, err := groups.List(ctx, "")
	if err != nil || !changed {
		t.Fatalf("changed %t, %v", changed, err)
	}
	if diff := cmp.Diff([]ingressnode.Group{made}, list); diff != "" {
		t.Errorf("unexpected groups (-want +got):\n%s", diff)
	}
	if _, again, changed, err := groups.List(ctx, revision); changed || again != revision || err != nil {
		t.Errorf("List since %s = %s, changed %t, %v; want nothing new", revision, again, changed, err)
	}
}

// A group that another owner has taken over is not written.
func TestChangeNamesTheOwner(t *testing.T) {
	c := cloud.Start(t, 0)
	groups := groupsOf(c)
	made, err := groups.Create(t.Context(), "edge", "")
	if err != nil {
		t.Fatal(err)
	}
	taken, err := c.Client.UpdateNodeGroup(
		t.Context(), made.ID, cloudv1.NodeGroupSpec{Name: "theirs"}, cloudapi.WriteOptions{IfMatch: made.Revision},
	)
	if err != nil {
		t.Fatal(err)
	}
	made.Revision = taken.Revision
	_, err = groups.Change(
		t.Context(), made, []ingressnode.Member{{InstanceID: "i-1", Addresses: []string{"10.0.0.1"}}}, nil, "",
	)
	if !cloudapi.HasCode(err, cloudv1.CodeTagsMismatch) {
		t.Errorf("error %v, want %s", err, cloudv1.CodeTagsMismatch)
	}
}

// Two leaders, or one with a stale list, create a group at the same time: there is one group.
func TestCreateTwice(t *testing.T) {
	c := cloud.Start(t, 0)
	ctx := t.Context()
	one, err := groupsOf(c).Create(ctx, "edge", "")
	if err != nil {
		t.Fatal(err)
	}
	member := ingressnode.Member{InstanceID: "i-1", Addresses: []string{"10.0.0.1"}}
	if one, err = groupsOf(c).Change(ctx, one, []ingressnode.Member{member}, nil, ""); err != nil {
		t.Fatal(err)
	}
	two, err := groupsOf(c).Create(ctx, "edge", "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(one, two); diff != "" {
		t.Errorf("another group than the first (-first +second):\n%s", diff)
	}
}

// The cloud still remembers the idempotency key of a group that we have lost.
func TestCreateAfterLoss(t *testing.T) {
	c := cloud.Start(t, 0)
	groups := groupsOf(c)
	ctx := t.Context()
	lost, err := groups.Create(ctx, "edge", "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Client.UpdateNodeGroup(
		ctx, lost.ID, cloudv1.NodeGroupSpec{Name: "theirs"}, cloudapi.WriteOptions{IfMatch: lost.Revision},
	)
	if err != nil {
		t.Fatal(err)
	}
	if made, err := groups.Create(ctx, "edge", ""); err != nil || made.ID == lost.ID || made.Name != "edge" {
		t.Errorf("group %+v, %v; want a new one", made, err)
	}
}

// Group a-b of cluster c and group b of cluster c-a have the same name; so may anything that a person creates.
func TestNameTaken(t *testing.T) {
	const suffixed = "dev-edge-e2379530"
	ours := map[string]string{ownership.ClusterUID: clusterUID, ownership.IngressGroup: "edge"}
	for name, tags := range map[string]map[string]string{
		"by someone else":             {"team": "net"},
		"by a group of another name":  {ownership.ClusterUID: clusterUID, ownership.IngressGroup: "other"},
		"by a group of other cluster": {ownership.ClusterUID: "other", ownership.IngressGroup: "edge"},
		"by the very group":           ours,
	} {
		t.Run(name, func(t *testing.T) {
			c := cloud.Start(t, 0)
			ctx := t.Context()
			holder, err := c.Client.CreateNodeGroup(ctx, cloudv1.NodeGroupSpec{Name: "dev-edge", Tags: tags}, cloudapi.WriteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want := holder.ID
			if !ownership.Bears(tags, ours) {
				want = ""
			}
			for range 2 {
				got, err := groupsOf(c).Create(ctx, "edge", "")
				if err != nil {
					t.Fatal(err)
				}
				if want == "" {
					if made, err := c.Client.NodeGroup(ctx, got.ID); err != nil || made.Name != suffixed {
						t.Errorf("group %+v, %v; want the name %s", made, err, suffixed)
					}
					want = got.ID
				}
				if got.ID != want {
					t.Errorf("group %s, want %s", got.ID, want)
				}
			}
			list, _, _, err := groupsOf(c).List(ctx, "")
			if err != nil || !slices.ContainsFunc(list, func(g ingressnode.Group) bool { return g.ID == want && g.Name == "edge" }) {
				t.Errorf("groups %+v, %v; want %s among them", list, err, want)
			}
		})
	}
}

// With both names taken by others, the error names the holder.
func TestBothNamesTaken(t *testing.T) {
	c := cloud.Start(t, 0)
	for _, name := range []string{"dev-edge", "dev-edge-e2379530"} {
		if _, err := c.Client.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{Name: name}, cloudapi.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := groupsOf(c).Create(t.Context(), "edge", "")
	if err == nil || !strings.Contains(err.Error(), "lacks the ownership tags of this group; rename or delete it") {
		t.Errorf("error %v, want one that names the holder", err)
	}
}

// Only a group that is ours, unchanged since it was read and not in use is deleted.
func TestDelete(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(t *testing.T, c *cloud.Cloud, g *ingressnode.Group)
		// err reports whether an error is the expected one.
		err func(error) bool
	}{
		"unused": {err: func(err error) bool { return err == nil }},
		"absent": {
			before: func(_ *testing.T, _ *cloud.Cloud, g *ingressnode.Group) { g.ID = "ng-none" },
			err:    func(err error) bool { return err == nil },
		},
		"changed since": {
			before: func(_ *testing.T, _ *cloud.Cloud, g *ingressnode.Group) { g.Revision = "1" },
			err:    func(err error) bool { return cloudapi.HasCode(err, cloudv1.CodeStaleRevision) },
		},
		"given away": {
			before: func(t *testing.T, c *cloud.Cloud, g *ingressnode.Group) {
				taken, err := c.Client.UpdateNodeGroup(t.Context(), g.ID, cloudv1.NodeGroupSpec{Name: "theirs"}, cloudapi.WriteOptions{IfMatch: g.Revision})
				if err != nil {
					t.Fatal(err)
				}
				g.Revision = taken.Revision
			},
			err: func(err error) bool { return cloudapi.HasCode(err, cloudv1.CodeTagsMismatch) },
		},
		"in use": {
			before: func(t *testing.T, c *cloud.Cloud, g *ingressnode.Group) {
				refer(t, c, g.ID)
			},
			err: func(err error) bool { return errors.Is(err, ingressnode.ErrInUse) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := cloud.Start(t, 0)
			groups := groupsOf(c)
			g, err := groups.Create(t.Context(), "edge", "")
			if err != nil {
				t.Fatal(err)
			}
			if tc.before != nil {
				tc.before(t, c, &g)
			}
			if err := groups.Delete(t.Context(), g); !tc.err(err) {
				t.Errorf("unexpected error %v", err)
			}
		})
	}
}

// refer creates a load balancer with a pool that refers to the group.
func refer(t *testing.T, c *cloud.Cloud, groupID string) {
	t.Helper()
	_, _, err := c.Client.CreateLoadBalancer(t.Context(), cloudv1.LoadBalancerSpec{Name: "web", LoadBalancerFields: cloudv1.LoadBalancerFields{
		Scheme: cloudv1.SchemePublic, Listeners: []cloudv1.Listener{},
		Pools: []cloudv1.Pool{{
			Key: "tcp/80", Family: cloudv1.FamilyIPv4, Protocol: cloudv1.ProtocolTCP, Algorithm: "round_robin", TargetPort: 30080,
			NodeGroupID: groupID,
		}},
	}}, cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// Two groups of the same name are an error only for that name.
func TestListDuplicates(t *testing.T) {
	c := cloud.Start(t, 0)
	groups := groupsOf(c)
	ctx := t.Context()
	for _, name := range []string{"edge", "inner"} {
		if _, err := groups.Create(ctx, name, ""); err != nil {
			t.Fatal(err)
		}
	}
	tags := map[string]string{ownership.ClusterUID: clusterUID, ownership.IngressGroup: "edge"}
	if _, err := c.Client.CreateNodeGroup(ctx, cloudv1.NodeGroupSpec{Name: "by-hand", Tags: tags}, cloudapi.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	list, _, _, err := groups.List(ctx, "")
	if err != nil || len(list) != 2 {
		t.Fatalf("groups %+v, %v; want 2", list, err)
	}
	for _, g := range list {
		if (g.Err != nil) != (g.Name == "edge") {
			t.Errorf("group %s: error %v", g.Name, g.Err)
		}
	}
}

// Five hundred and one instances are two requests; a tombstone is an answer, an unknown instance is none.
func TestMachines(t *testing.T) {
	c := cloud.Start(t, 0)
	if _, err := c.Client.DeleteInstance(t.Context(), "i-node-2", cloudapi.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	ids := []string{"i-node-1", "i-node-2"}
	for i := range 499 {
		ids = append(ids, fmt.Sprintf("i-none-%d", i))
	}
	c.Calls()
	_, m := mirrored(c)
	machines := nodegroup.NewMachines(c.Client, m)
	got, err := machines.Find(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]ingressnode.Machine{
		"i-node-1": {Addresses: []string{"10.0.0.11", "198.51.100.11"}},
		"i-node-2": {Addresses: []string{"10.0.0.12", "198.51.100.12"}, Deleted: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected instances (-want +got):\n%s", diff)
	}
	if calls := c.Calls(); len(calls) != 2 {
		t.Errorf("calls %v, want 2", calls)
	}
	if machines.HasSynced() {
		t.Error("synced before the mirror is")
	}
	run(t, m)
	c.Calls()
	if got, err = machines.Find(t.Context(), ids[:2]); err != nil || !machines.HasSynced() {
		t.Fatal(err, machines.HasSynced())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected instances from the mirror (-want +got):\n%s", diff)
	}
	if calls := c.Calls(); slices.Contains(calls, "POST /v1/instances:lookup") {
		t.Errorf("calls %v, want none for instances that the mirror has", calls)
	}
}
