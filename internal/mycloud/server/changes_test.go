package server_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// changes reads the changes after a revision, without waiting.
func (c *cloud) changes(since string, kinds ...string) *cloudv1.Changes {
	c.t.Helper()
	return must[*cloudv1.Changes](c.t)(c.client.Changes(c.t.Context(), since, kinds, 0))
}

// short returns the changes as kind, id and operation.
func short(changes *cloudv1.Changes) []string {
	all := []string{}
	for _, i := range changes.Items {
		all = append(all, i.Kind+" "+i.ID+" "+i.Op)
	}
	return all
}

func TestChanges(t *testing.T) {
	c := newCloud(t)
	ctx := t.Context()
	const lbs, vms = cloudv1.KindLoadBalancer, cloudv1.KindInstance
	start := must[*cloudv1.List[cloudv1.LoadBalancer]](t)(c.client.ListLoadBalancers(ctx, cloudapi.ListOptions{})).Revision
	diff(t, "nothing happened", &cloudv1.Changes{Revision: start, Items: []cloudv1.Change{}}, c.changes(start, lbs, vms))
	diff(t, "since the beginning", []string{
		"region eu-1 upsert", "zone eu-1a upsert", "zone eu-1b upsert", "zone eu-1c upsert",
	}, short(c.changes("0", cloudv1.KindZone, cloudv1.KindRegion)))

	one, two := c.createLB(tree("one")), c.createLB(tree("two"))
	s := tree("one")
	s.Listeners[0].MaxQPS = 7
	one, _, err := c.client.UpdateLoadBalancer(ctx, one.ID, s, cloudapi.WriteOptions{IfMatch: one.Revision})
	if err != nil {
		t.Fatal(err)
	}
	tombstone := must[*cloudv1.Instance](t)(c.client.DeleteInstance(ctx, "i-node-2", cloudapi.WriteOptions{}))
	got := c.changes(start, lbs, vms)
	diff(t, "the last change of each object", []string{
		lbs + " " + two.ID + " upsert", lbs + " " + one.ID + " upsert", vms + " i-node-2 upsert",
	}, short(got))
	diff(t, "a load balancer with its tree", one, new(decode[cloudv1.LoadBalancer](t, answer{body: got.Items[1].Object})))
	diff(t, "a tombstone", tombstone, new(decode[cloudv1.Instance](t, answer{body: got.Items[2].Object})))
	diff(t, "revision of a change", one.Revision, got.Items[1].Revision)
	diff(t, "one kind only", []string{vms + " i-node-2 upsert"}, short(c.changes(start, vms)))

	if _, err := c.client.DeleteLoadBalancer(ctx, one.ID, cloudapi.WriteOptions{IfMatch: one.Revision}); err != nil {
		t.Fatal(err)
	}
	after := c.changes(got.Revision, lbs, vms)
	diff(t, "a deletion", []string{lbs + " " + one.ID + " delete"}, short(after))
	diff(t, "object of a deletion", 0, len(after.Items[0].Object))

	page := decode[cloudv1.Changes](t, c.send("GET", "/v1/changes?limit=1&kinds="+lbs+"&since="+start, nil).want(t, 200, ""))
	diff(t, "first page", []string{lbs + " " + two.ID + " upsert"}, short(&page))
	diff(t, "more", true, page.More)
	last := c.changes(page.Revision, lbs)
	diff(t, "second page", short(after), short(last))
	diff(t, "no more", false, last.More)

	// A restart changes nothing for clients.
	c.stop()
	c = newCloud(t, withDir(c.dir))
	diff(t, "after a restart", after, c.changes(got.Revision, lbs, vms))

	c.send("GET", "/v1/changes?since=999999", nil).want(t, 410, "page-token-expired")
	c.send("GET", "/v1/changes?since=tomorrow", nil).want(t, 410, "page-token-expired")
	a := c.send("GET", "/v1/changes?since=0&kinds=zone,planet", nil).want(t, 422, "invalid")
	diff(t, "unknown kind", []string{"query/kinds[1]"}, a.pointers())
	c.send("GET", "/v1/changes?kinds=zone", nil).want(t, 422, "invalid")
	c.send("GET", "/v1/changes?since=0&wait=61", nil).want(t, 422, "invalid")
}

func TestChangesByTag(t *testing.T) {
	c := newCloud(t)
	ctx := t.Context()
	group := func(name, team string) *cloudv1.NodeGroup {
		spec := cloudv1.NodeGroupSpec{Name: name, Tags: map[string]string{"team": team}}
		return must[*cloudv1.NodeGroup](t)(c.client.CreateNodeGroup(ctx, spec, cloudapi.WriteOptions{}))
	}
	update := func(g *cloudv1.NodeGroup, team, member string) *cloudv1.NodeGroup {
		spec := cloudv1.NodeGroupSpec{Name: g.Name, Tags: map[string]string{"team": team}}
		if member != "" {
			spec.Members = []cloudv1.GroupMember{{
				Key: member, Weight: 1, State: "active", Addresses: []cloudv1.MemberAddress{{Family: "ipv4", Address: "10.0.0.1"}},
			}}
		}
		return must[*cloudv1.NodeGroup](t)(
			c.client.UpdateNodeGroup(ctx, g.ID, spec, cloudapi.WriteOptions{IfMatch: g.Revision}),
		)
	}
	since := c.changes("0").Revision
	edge := func() (ops []string) {
		path := "/v1/changes?tag=team:edge&since=" + url.QueryEscape(since)
		got := decode[cloudv1.Changes](t, c.send("GET", path, nil).want(t, 200, ""))
		since = got.Revision
		return short(&got)
	}
	a, b := group("a", "edge"), group("b", "core")
	upsert, gone := "node-group "+a.ID+" upsert", "node-group "+a.ID+" delete"
	diff(t, "created", []string{upsert}, edge())
	b = update(b, "core", "m")
	diff(t, "of others", []string{}, edge())
	a = update(a, "core", "")
	a = update(a, "core", "m")
	diff(t, "without the tag", []string{gone}, edge())
	a = update(a, "core", "n")
	diff(t, "changed without the tag", []string{}, edge())
	a = update(a, "edge", "n")
	diff(t, "with the tag again", []string{upsert}, edge())
	for _, g := range []*cloudv1.NodeGroup{a, b} {
		if err := c.client.DeleteNodeGroup(ctx, g.ID, cloudapi.WriteOptions{IfMatch: g.Revision}); err != nil {
			t.Fatal(err)
		}
	}
	diff(t, "deleted", []string{gone}, edge())
	c.send("GET", "/v1/changes?since=0&tag=edge", nil).want(t, 422, "invalid")
}

// TestChangesAreHeld checks that a response is held until a job ends, which is a change of its load balancer, too.
func TestChangesAreHeld(t *testing.T) {
	clock := newFakeClock()
	c := newCloud(t, withClock(clock), withJobs(time.Minute))
	ctx := t.Context()
	kinds := []string{cloudv1.KindLoadBalancer, cloudv1.KindJob}
	lb, job, err := c.client.CreateLoadBalancer(ctx, tree("one"), cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the creation runs", func() bool {
		return must[*cloudv1.Job](t)(c.client.Job(ctx, job, 0)).State == cloudv1.JobRunning
	})
	now := c.changes("0", kinds...)
	diff(t, "tags of the job", lb.Tags, decode[cloudv1.Job](t, answer{body: now.Items[1].Object}).Tags)
	held := make(chan *cloudv1.Changes, 1)
	failed := make(chan error, 1)
	go func() {
		got, err := c.client.Changes(ctx, now.Revision, kinds, 55*time.Second)
		held <- got
		failed <- err
	}()
	// A change of another kind does not end the wait.
	must[*cloudv1.Instance](t)(c.client.StopInstance(ctx, "i-node-1", cloudapi.WriteOptions{}))
	select {
	case got := <-held:
		t.Fatalf("answered without a change: %+v", got)
	case <-time.After(100 * time.Millisecond):
	}
	clock.Step(time.Minute)
	got := <-held
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	diff(t, "the end of a job", []string{"load-balancer " + lb.ID + " upsert", "job " + job + " upsert"}, short(got))
	diff(t, "state", cloudv1.ProvisioningActive, decode[cloudv1.LoadBalancer](t, answer{body: got.Items[0].Object}).ProvisioningState)

	start := time.Now()
	none := must[*cloudv1.Changes](t)(c.client.Changes(ctx, got.Revision, kinds, time.Second))
	diff(t, "nothing happens", 0, len(none.Items))
	if time.Since(start) < time.Second {
		t.Errorf("answered after %s", time.Since(start))
	}
}

// TestListsAndChangesFit checks that the revision of any list is a place to continue from, even if the collection has
// not changed for so long that no deletion since then is known anymore.
func TestListsAndChangesFit(t *testing.T) {
	clock := newFakeClock()
	c := newCloud(t, withClock(clock))
	ctx := t.Context()
	old := must[*cloudv1.List[cloudv1.Zone]](t)(c.client.Zones(ctx, cloudapi.ListOptions{})).Revision
	for i := range 3 {
		g := must[*cloudv1.NodeGroup](t)(
			c.client.CreateNodeGroup(ctx, cloudv1.NodeGroupSpec{Name: fmt.Sprint(i)}, cloudapi.WriteOptions{}),
		)
		if err := c.client.DeleteNodeGroup(ctx, g.ID, cloudapi.WriteOptions{IfMatch: g.Revision}); err != nil {
			t.Fatal(err)
		}
	}
	// Expired records are deleted between two waits of the server.
	eventually(t, "the server waits", clock.HasWaiters)
	clock.Step(25 * time.Hour)
	eventually(t, "the deletions are forgotten", func() bool {
		_, err := c.client.Changes(ctx, old, []string{cloudv1.KindZone}, 0)
		return cloudapi.HasCode(err, cloudv1.CodePageTokenExpired)
	})
	if _, err := c.client.Zones(ctx, cloudapi.ListOptions{IfNoneMatch: old}); err == nil {
		t.Error("the zones have not changed, but the response is not 304")
	}
	zones := must[*cloudv1.List[cloudv1.Zone]](t)(c.client.Zones(ctx, cloudapi.ListOptions{}))
	diff(t, "changes after the list", 0, len(c.changes(zones.Revision).Items))
}
