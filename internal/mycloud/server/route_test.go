package server_test

import (
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

func TestRoutes(t *testing.T) {
	c := newCloud(t)
	ctx := t.Context()
	mine := map[string]string{"quaymaster.dev/cluster-uid": "c1"}
	own := cloudapi.WriteOptions{IfTags: mine}
	to := func(destination, instance string) cloudv1.RouteSpec {
		return cloudv1.RouteSpec{Destination: destination, NextHop: cloudv1.NextHop{InstanceID: instance}, Tags: mine}
	}
	batch := func(o cloudapi.WriteOptions, b cloudv1.RoutesBatch) []cloudv1.RouteResult {
		t.Helper()
		return must[*cloudv1.RoutesBatchResult](t)(c.client.BatchRoutes(ctx, "rt-main", b, o)).Results
	}
	statuses := func(results []cloudv1.RouteResult) []int {
		var all []int
		for _, r := range results {
			all = append(all, r.Status)
		}
		return all
	}
	res := batch(own, cloudv1.RoutesBatch{Upsert: []cloudv1.RouteSpec{
		to("10.244.1.0/24", "i-node-1"), to("10.244.2.0/24", "i-node-2"),
		to("10.244.1.1/24", "i-node-1"), to("10.244.3.0/24", "i-none"),
		{Destination: "fd00:1::/64", NextHop: cloudv1.NextHop{Address: "fd00::1"}, Tags: mine},
		{Destination: "fd00:2::/64", Tags: mine},
		{
			Destination: "10.9.0.0/16", NextHop: cloudv1.NextHop{Address: "10.0.0.1"},
			Tags: map[string]string{"quaymaster.dev/cluster-uid": "c2"},
		},
	}})
	diff(t, "statuses", []int{201, 201, 422, 422, 201, 422, 412}, statuses(res))
	diff(t, "field at fault", "/destination", res[2].Error.Errors[0].Pointer)

	again := batch(own, cloudv1.RoutesBatch{Upsert: []cloudv1.RouteSpec{to("10.244.1.0/24", "i-node-1")}})
	diff(t, "the same again", res[0].Route, again[0].Route)

	theirs := to("10.244.1.0/24", "i-node-2")
	theirs.Tags = map[string]string{"quaymaster.dev/cluster-uid": "c2"}
	taken := batch(cloudapi.WriteOptions{IfTags: theirs.Tags}, cloudv1.RoutesBatch{Upsert: []cloudv1.RouteSpec{theirs}})
	diff(t, "statuses", []int{409}, statuses(taken))
	diff(t, "code", cloudv1.CodeDestinationTaken, taken[0].Error.Code)
	diff(t, "owner", &cloudv1.Reference{Kind: "route", ID: res[0].Route.ID}, taken[0].Error.Resource)
	diff(
		t, "without If-Tags the tags must be the same", []int{409},
		statuses(batch(cloudapi.WriteOptions{}, cloudv1.RoutesBatch{Upsert: []cloudv1.RouteSpec{theirs}})),
	)

	moved := batch(own, cloudv1.RoutesBatch{Upsert: []cloudv1.RouteSpec{to("10.244.1.0/24", "i-node-2")}})
	diff(t, "statuses", []int{200}, statuses(moved))
	diff(t, "identity stays", res[0].Route.ID, moved[0].Route.ID)

	elsewhere := &cloudv1.NextHop{InstanceID: "i-node-1"}
	gone := batch(own, cloudv1.RoutesBatch{Remove: []cloudv1.RouteRemoval{
		{Destination: "10.244.1.0/24", NextHop: elsewhere}, {Destination: "10.244.2.0/24"}, {Destination: "10.244.2.0/24"},
	}})
	diff(t, "statuses", []int{409, 200, 404}, statuses(gone))
	foreign := batch(
		cloudapi.WriteOptions{IfTags: theirs.Tags},
		cloudv1.RoutesBatch{Remove: []cloudv1.RouteRemoval{{Destination: "10.244.1.0/24"}}},
	)
	diff(t, "statuses", []int{412}, statuses(foreign))

	left := must[*cloudv1.List[cloudv1.Route]](t)(c.client.ListRoutes(ctx, "rt-main", cloudapi.ListOptions{Tags: mine}))
	diff(t, "routes left", 2, len(left.Items))
	c.send("GET", "/v1/route-tables/rt-none/routes", nil).want(t, 404, "resource-not-found")
	c.send("POST", "/v1/route-tables/rt-none/routes:batch", cloudv1.RoutesBatch{}).want(t, 404, "resource-not-found")
}
