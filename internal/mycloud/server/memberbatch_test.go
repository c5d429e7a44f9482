package server_test

import (
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

func poolMember(key, address string) cloudv1.Member {
	return cloudv1.Member{Key: key, Address: address, Port: 30080, Weight: 1, State: cloudv1.MemberActive}
}

func TestMemberBatches(t *testing.T) {
	c := newCloud(t)
	ctx := t.Context()
	s := tree("one")
	s.Pools[0].Members = []cloudv1.Member{poolMember("a", "10.0.0.1"), poolMember("b", "10.0.0.2")}
	s.Pools = append(s.Pools, s.Pools[0])
	s.Pools[1].Key = "spare"
	one, two := c.createLB(s), c.createLB(tree("two"))
	group := must[*cloudv1.NodeGroup](t)(c.client.CreateNodeGroup(ctx, cloudv1.NodeGroupSpec{Name: "g"}, cloudapi.WriteOptions{}))
	grouped := tree("grouped")
	grouped.Pools[0].NodeGroupID = group.ID
	three := c.createLB(grouped)
	op := func(lb *cloudv1.LoadBalancer, pool string) cloudv1.MemberOperation {
		return cloudv1.MemberOperation{
			LoadBalancerID: lb.ID, PoolKey: pool, Family: "ipv4", IfMatch: lb.Revision, Remove: []string{"a", "none"},
			Upsert: []cloudv1.Member{poolMember("c", "10.0.0.3"), poolMember("b", "10.0.0.22")},
		}
	}
	stale, without, gone := op(two, "tcp/80"), op(two, "tcp/80"), op(two, "tcp/80")
	stale.IfMatch, without.IfMatch, gone.LoadBalancerID = "0", "", "lb-none"
	batch := cloudv1.MemberBatch{Operations: []cloudv1.MemberOperation{
		op(one, "tcp/80"), op(one, "spare"), stale, without, gone, op(one, "none"), op(three, "tcp/80"),
	}}
	o := cloudapi.WriteOptions{IdempotencyKey: "k", IfTags: map[string]string{"quaymaster.dev/cluster-uid": "c1"}}
	res := must[*cloudv1.MemberBatchResult](t)(c.client.BatchMembers(ctx, batch, o))
	var got []any
	for _, r := range res.Results {
		code := ""
		if r.Error != nil {
			code = r.Error.Code
		}
		got = append(got, r.Status, code)
	}
	diff(t, "results", []any{
		200, "", 200, "", 412, "stale-revision", 428, "precondition-required", 404, "resource-not-found",
		404, "resource-not-found", 409, "conflict",
	}, got)
	now := must[*cloudv1.LoadBalancer](t)(c.client.LoadBalancer(ctx, one.ID))
	diff(t, "revision", now.Revision, res.Results[0].Revision)
	for i := range now.Pools {
		diff(t, "members", []cloudv1.Member{poolMember("b", "10.0.0.22"), poolMember("c", "10.0.0.3")}, now.Pools[i].Members)
	}
	again := must[*cloudv1.MemberBatchResult](t)(c.client.BatchMembers(ctx, batch, o))
	diff(t, "the response for the same key", res, again)

	o = cloudapi.WriteOptions{IfTags: map[string]string{"quaymaster.dev/cluster-uid": "c2"}}
	batch.Operations = []cloudv1.MemberOperation{op(two, "tcp/80")}
	others := must[*cloudv1.MemberBatchResult](t)(c.client.BatchMembers(ctx, batch, o))
	diff(t, "of another cluster", "tags-mismatch", others.Results[0].Error.Code)

	batch.Operations[0].Upsert[0].Address = "fd00::1"
	batch.Operations[0].Remove = []string{"b"}
	a := c.send("POST", "/v1/member-batches", batch).want(t, 422, "invalid")
	diff(t, "fields at fault", []string{"/operations/0/upsert/0/address", "/operations/0/remove/0"}, a.pointers())
}

func TestMemberBatchesWithJobs(t *testing.T) {
	c := newCloud(t, withClock(newFakeClock()), withJobs(time.Minute))
	lb, _, err := c.client.CreateLoadBalancer(t.Context(), tree("one"), cloudapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	res := must[*cloudv1.MemberBatchResult](t)(c.client.BatchMembers(t.Context(), cloudv1.MemberBatch{
		Operations: []cloudv1.MemberOperation{{
			LoadBalancerID: lb.ID, PoolKey: "tcp/80", Family: "ipv4", IfMatch: lb.Revision,
			Upsert: []cloudv1.Member{poolMember("a", "10.0.0.1")},
		}},
	}, cloudapi.WriteOptions{}))
	r := res.Results[0]
	diff(t, "status", 202, r.Status)
	job := must[*cloudv1.Job](t)(c.client.Job(t.Context(), r.JobID, 0))
	diff(t, "target of the job", lb.ID, job.Target.ID)
}
