package nodegroup_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/provider/nodegroup"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/cloud"
)

const clusterUID = "c1a5e000-0000-4000-8000-000000000001"

func groupsOf(c *cloud.Cloud) *nodegroup.Groups {
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: clusterUID}})
	return nodegroup.New(c.Client, ownership.NewCluster(client.CoreV1()), "dev")
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
			InstanceID: id, Zone: "eu-1a", Addresses: []string{fmt.Sprintf("10.1.%d.%d", i/250, i%250), fmt.Sprintf("fd00::%x", i+1)},
		})
	}
	empty, err := groups.Create(ctx, "default")
	if err != nil {
		t.Fatal(err)
	}
	c.Calls()
	made, err := groups.Change(ctx, empty, members, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(members, made.Members); diff != "" {
		t.Fatalf("unexpected members (-want +got):\n%s", diff)
	}
	if writes := cloud.Writes(c.Calls()); len(writes) != 2 {
		t.Errorf("writes %v, want 2", writes)
	}
	changed, err := groups.Change(ctx, made, members[:600], ids[600:])
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
	made, err := groups.Create(ctx, "edge")
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
	made, err := groups.Create(t.Context(), "edge")
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
		t.Context(), made, []ingressnode.Member{{InstanceID: "i-1", Addresses: []string{"10.0.0.1"}}}, nil,
	)
	if !cloudapi.HasCode(err, cloudv1.CodeTagsMismatch) {
		t.Errorf("error %v, want %s", err, cloudv1.CodeTagsMismatch)
	}
}

// Two leaders, or one with a stale list, create a group at the same time: there is one group.
func TestCreateTwice(t *testing.T) {
	c := cloud.Start(t, 0)
	ctx := t.Context()
	one, err := groupsOf(c).Create(ctx, "edge")
	if err != nil {
		t.Fatal(err)
	}
	member := ingressnode.Member{InstanceID: "i-1", Addresses: []string{"10.0.0.1"}}
	if one, err = groupsOf(c).Change(ctx, one, []ingressnode.Member{member}, nil); err != nil {
		t.Fatal(err)
	}
	two, err := groupsOf(c).Create(ctx, "edge")
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
	lost, err := groups.Create(ctx, "edge")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Client.UpdateNodeGroup(
		ctx, lost.ID, cloudv1.NodeGroupSpec{Name: "theirs"}, cloudapi.WriteOptions{IfMatch: lost.Revision},
	)
	if err != nil {
		t.Fatal(err)
	}
	if made, err := groups.Create(ctx, "edge"); err != nil || made.ID == lost.ID || made.Name != "edge" {
		t.Errorf("group %+v, %v; want a new one", made, err)
	}
}

func TestNameTaken(t *testing.T) {
	ours := map[string]string{ownership.ClusterUID: clusterUID, ownership.IngressGroup: "edge"}
	for name, tc := range map[string]struct {
		tags map[string]string
		err  string
	}{
		"by the very group":           {tags: ours},
		"by a group of someone else":  {tags: map[string]string{"team": "net"}, err: "lacks the ownership tags of this group; rename or delete it"},
		"by a group of another name":  {tags: map[string]string{ownership.ClusterUID: clusterUID, ownership.IngressGroup: "other"}, err: "lacks the ownership tags of this group"},
		"by a group of other cluster": {tags: map[string]string{ownership.ClusterUID: "other", ownership.IngressGroup: "edge"}, err: "lacks the ownership tags of this group"},
	} {
		t.Run(name, func(t *testing.T) {
			c := cloud.Start(t, 0)
			holder, err := c.Client.CreateNodeGroup(
				t.Context(), cloudv1.NodeGroupSpec{Name: "dev-edge", Tags: tc.tags}, cloudapi.WriteOptions{},
			)
			if err != nil {
				t.Fatal(err)
			}
			got, err := groupsOf(c).Create(t.Context(), "edge")
			switch {
			case tc.err == "" && (err != nil || got.ID != holder.ID):
				t.Errorf("group %+v, %v; want %s", got, err, holder.ID)
			case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), holder.ID)):
				t.Errorf("error %v, want %q about %s", err, tc.err, holder.ID)
			}
		})
	}
}

// Two groups of the same name are an error only for that name.
func TestListDuplicates(t *testing.T) {
	c := cloud.Start(t, 0)
	groups := groupsOf(c)
	ctx := t.Context()
	for _, name := range []string{"edge", "inner"} {
		if _, err := groups.Create(ctx, name); err != nil {
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
