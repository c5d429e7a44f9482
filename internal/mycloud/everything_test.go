package mycloud_test

import (
	"testing"

	"quaymaster.dev/provider/cloudapi"
)

// TestEveryOperation uses each operation of the document through the client, or by hand where the client has none.
func TestEveryOperation(t *testing.T) {
	c := newCloud(t)
	ctx, cl := t.Context(), c.client
	none := cloudapi.ListOptions{}
	read, write := cloudapi.ReadOptions{}, cloudapi.WriteOptions{}

	meta := must[*cloudapi.Meta](t)(cl.Meta(ctx))
	diff(t, "capabilities", []string{cloudapi.CapabilityNodeGroups}, meta.Capabilities)
	zones := must[*cloudapi.List[cloudapi.Zone]](t)(cl.Zones(ctx, none))
	regions := must[*cloudapi.List[cloudapi.Region]](t)(cl.Regions(ctx, none))
	types := must[*cloudapi.List[cloudapi.InstanceType]](t)(cl.InstanceTypes(ctx, none))
	volumes := must[*cloudapi.List[cloudapi.Volume]](t)(cl.ListVolumes(ctx, none))
	volumeTypes := must[*cloudapi.List[cloudapi.VolumeType]](t)(cl.VolumeTypes(ctx, none))
	tables := must[*cloudapi.List[cloudapi.RouteTable]](t)(cl.ListRouteTables(ctx, none))
	instances := must[*cloudapi.List[cloudapi.Instance]](t)(cl.ListInstances(ctx, none))
	diff(t, "sizes of collections", []int{3, 1, 3, 4, 2, 1, 4}, []int{
		len(zones.Items), len(regions.Items), len(types.Items), len(volumes.Items), len(volumeTypes.Items),
		len(tables.Items), len(instances.Items),
	})
	for _, path := range []string{"zones/eu-1a", "regions/eu-1", "instance-types/m1.small", "volume-types/ssd", "route-tables/rt-main"} {
		c.send("GET", "/v1/"+path, nil).want(t, 200, "")
	}
	must[*cloudapi.Volume](t)(cl.Volume(ctx, "vol-shared-1", read))

	created := must[*cloudapi.Instance](t)(cl.CreateInstance(ctx, cloudapi.InstanceSpec{
		Hostname: "node-9", Type: "m1.small", Zone: "eu-1b",
		Addresses: []cloudapi.InstanceAddress{{Type: "internal", Family: "ipv4", Address: "10.0.0.19"}},
	}, write))
	for _, do := range []func() (*cloudapi.Instance, error){
		func() (*cloudapi.Instance, error) { return cl.Instance(ctx, created.ID, read) },
		func() (*cloudapi.Instance, error) { return cl.StopInstance(ctx, created.ID, write) },
		func() (*cloudapi.Instance, error) { return cl.StartInstance(ctx, created.ID, write) },
		func() (*cloudapi.Instance, error) { return cl.DeleteInstance(ctx, created.ID, write) },
	} {
		must[*cloudapi.Instance](t)(do())
	}
	must[*cloudapi.LookupResult](t)(cl.LookupInstances(ctx, cloudapi.LookupRequest{IDs: []string{"i-node-1"}}))

	group := must[*cloudapi.NodeGroup](t)(cl.CreateNodeGroup(ctx, cloudapi.NodeGroupSpec{Name: "default"}, write))
	group = must[*cloudapi.NodeGroup](t)(cl.PatchMembers(ctx, group.ID, cloudapi.MembersPatch{Upsert: []cloudapi.GroupMember{member("a", "10.0.0.11")}},
		cloudapi.WriteOptions{IfMatch: group.Revision}))
	group = must[*cloudapi.NodeGroup](t)(cl.UpdateNodeGroup(ctx, group.ID, cloudapi.NodeGroupSpec{Name: "other"}, cloudapi.WriteOptions{IfMatch: group.Revision}))
	must[*cloudapi.NodeGroup](t)(cl.NodeGroup(ctx, group.ID, read))
	must[*cloudapi.List[cloudapi.NodeGroup]](t)(cl.ListNodeGroups(ctx, none))
	if err := cl.DeleteNodeGroup(ctx, group.ID, cloudapi.WriteOptions{IfMatch: group.Revision}); err != nil {
		t.Error(err)
	}

	if err := cl.ValidateLoadBalancer(ctx, tree("one")); err != nil {
		t.Error(err)
	}
	lb := c.createLB(tree("one"))
	must[*cloudapi.Health](t)(cl.LoadBalancerHealth(ctx, lb.ID))
	lb, _, err := cl.AdoptLoadBalancer(ctx, lb.ID, map[string]string{"k": "v"}, cloudapi.WriteOptions{IfMatch: lb.Revision})
	if err != nil {
		t.Fatal(err)
	}
	name := "renamed"
	lb, _, err = cl.PatchLoadBalancer(ctx, lb.ID, cloudapi.LoadBalancerPatch{Name: &name}, cloudapi.WriteOptions{IfMatch: lb.Revision})
	if err != nil {
		t.Fatal(err)
	}
	lb, _, err = cl.UpdateLoadBalancer(ctx, lb.ID, tree("two"), cloudapi.WriteOptions{IfMatch: lb.Revision})
	if err != nil {
		t.Fatal(err)
	}
	must[*cloudapi.LoadBalancer](t)(cl.LoadBalancer(ctx, lb.ID, read))
	must[*cloudapi.List[cloudapi.LoadBalancer]](t)(cl.ListLoadBalancers(ctx, none))
	if _, err := cl.DeleteLoadBalancer(ctx, lb.ID, cloudapi.WriteOptions{IfMatch: lb.Revision}); err != nil {
		t.Error(err)
	}

	batch := cloudapi.RoutesBatch{Upsert: []cloudapi.RouteSpec{{Destination: "10.244.1.0/24", NextHop: cloudapi.NextHop{InstanceID: "i-node-1"}}}}
	must[*cloudapi.RoutesBatchResult](t)(cl.BatchRoutes(ctx, "rt-main", batch, write))
	must[*cloudapi.List[cloudapi.Route]](t)(cl.ListRoutes(ctx, "rt-main", none))
	must[*cloudapi.List[cloudapi.Job]](t)(cl.ListJobs(ctx, none))

	// There are jobs only where writes take time.
	diff(t, "operations that this test does not use", []string{"get-job"}, c.check.unseen())
}

func member(key, address string) cloudapi.GroupMember {
	return cloudapi.GroupMember{
		Key: key, Addresses: []cloudapi.MemberAddress{{Family: "ipv4", Address: address}}, Weight: 1, State: cloudapi.MemberActive,
	}
}
