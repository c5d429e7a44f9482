package server_test

import (
	"net/http"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// TestEveryOperation uses each operation of the document, through the client or, if the client lacks it, directly.
func TestEveryOperation(t *testing.T) {
	c := newCloud(t)
	ctx, cl := t.Context(), c.client
	none := cloudapi.ListOptions{}
	write := cloudapi.WriteOptions{}

	meta := must[*cloudv1.Meta](t)(cl.Meta(ctx))
	diff(t, "capabilities", []string{
		cloudv1.CapabilityNodeGroups, cloudv1.CapabilityChanges, cloudv1.CapabilityFencing,
		cloudv1.CapabilityHolders, cloudv1.CapabilityMemberBatches, cloudv1.CapabilityJobs, cloudv1.CapabilityEdges,
	}, meta.Capabilities)
	zones := must[*cloudv1.List[cloudv1.Zone]](t)(cl.Zones(ctx, none))
	regions := must[*cloudv1.List[cloudv1.Region]](t)(cl.Regions(ctx, none))
	types := must[*cloudv1.List[cloudv1.InstanceType]](t)(cl.InstanceTypes(ctx, none))
	volumes := must[*cloudv1.List[cloudv1.Volume]](t)(cl.ListVolumes(ctx, none))
	volumeTypes := must[*cloudv1.List[cloudv1.VolumeType]](t)(cl.VolumeTypes(ctx, none))
	tables := must[*cloudv1.List[cloudv1.RouteTable]](t)(cl.ListRouteTables(ctx, none))
	instances := must[*cloudv1.List[cloudv1.Instance]](t)(cl.ListInstances(ctx, none))
	diff(t, "sizes of collections", []int{3, 1, 3, 4, 2, 1, 4}, []int{
		len(zones.Items), len(regions.Items), len(types.Items), len(volumes.Items), len(volumeTypes.Items),
		len(tables.Items), len(instances.Items),
	})
	for _, path := range []string{"zones/eu-1a", "regions/eu-1", "instance-types/m1.small", "volume-types/ssd", "route-tables/rt-main"} {
		c.send("GET", "/v1/"+path, nil).want(t, 200, "")
	}
	must[*cloudv1.Volume](t)(cl.Volume(ctx, "vol-shared-1"))

	created := must[*cloudv1.Instance](t)(cl.CreateInstance(ctx, cloudv1.InstanceSpec{
		Hostname: "node-9", Type: "m1.small", Zone: "eu-1b",
		Addresses: []cloudv1.InstanceAddress{{Type: "internal", Family: "ipv4", Address: "10.0.0.19"}},
	}, write))
	for _, do := range []func() (*cloudv1.Instance, error){
		func() (*cloudv1.Instance, error) { return cl.Instance(ctx, created.ID) },
		func() (*cloudv1.Instance, error) { return cl.StopInstance(ctx, created.ID, write) },
		func() (*cloudv1.Instance, error) { return cl.StartInstance(ctx, created.ID, write) },
		func() (*cloudv1.Instance, error) { return cl.DeleteInstance(ctx, created.ID, write) },
	} {
		must[*cloudv1.Instance](t)(do())
	}
	must[*cloudv1.LookupResult](t)(cl.LookupInstances(ctx, cloudv1.LookupRequest{IDs: []string{"i-node-1"}}))

	group := must[*cloudv1.NodeGroup](t)(cl.CreateNodeGroup(ctx, cloudv1.NodeGroupSpec{Name: "default"}, write))
	group = must[*cloudv1.NodeGroup](t)(
		cl.PatchMembers(ctx, group.ID, cloudv1.MembersPatch{Upsert: []cloudv1.GroupMember{member("a", "10.0.0.11")}},
			cloudapi.WriteOptions{IfMatch: group.Revision}),
	)
	group = must[*cloudv1.NodeGroup](t)(
		cl.UpdateNodeGroup(
			ctx, group.ID, cloudv1.NodeGroupSpec{Name: "other"}, cloudapi.WriteOptions{IfMatch: group.Revision},
		),
	)
	must[*cloudv1.NodeGroup](t)(cl.NodeGroup(ctx, group.ID))
	must[*cloudv1.List[cloudv1.NodeGroup]](t)(cl.ListNodeGroups(ctx, none))
	if err := cl.DeleteNodeGroup(ctx, group.ID, cloudapi.WriteOptions{IfMatch: group.Revision}); err != nil {
		t.Error(err)
	}

	if err := cl.ValidateLoadBalancer(ctx, tree("one")); err != nil {
		t.Error(err)
	}
	lb := c.createLB(tree("one"))
	must[*cloudv1.Health](t)(cl.LoadBalancerHealth(ctx, lb.ID))
	must[*cloudv1.Stats](t)(cl.LoadBalancerStats(ctx, lb.ID))
	lb, _, err := cl.AdoptLoadBalancer(
		ctx, lb.ID, map[string]string{"k": "v"}, cloudapi.WriteOptions{IfMatch: lb.Revision},
	)
	if err != nil {
		t.Fatal(err)
	}
	name := "renamed"
	lb, _, err = cl.PatchLoadBalancer(
		ctx, lb.ID, cloudv1.LoadBalancerPatch{Name: &name}, cloudapi.WriteOptions{IfMatch: lb.Revision},
	)
	if err != nil {
		t.Fatal(err)
	}
	lb, _, err = cl.UpdateLoadBalancer(ctx, lb.ID, tree("two"), cloudapi.WriteOptions{IfMatch: lb.Revision})
	if err != nil {
		t.Fatal(err)
	}
	must[*cloudv1.LoadBalancer](t)(cl.LoadBalancer(ctx, lb.ID))
	must[*cloudv1.MemberBatchResult](t)(cl.BatchMembers(ctx, cloudv1.MemberBatch{
		Operations: []cloudv1.MemberOperation{{LoadBalancerID: lb.ID, PoolKey: "none", Family: "ipv4"}},
	}, write))
	must[*cloudv1.List[cloudv1.LoadBalancer]](t)(cl.ListLoadBalancers(ctx, none))
	must[*cloudv1.List[cloudv1.Address]](t)(cl.ListAddresses(ctx, none))
	if _, err := cl.DeleteLoadBalancer(ctx, lb.ID, cloudapi.WriteOptions{IfMatch: lb.Revision}); err != nil {
		t.Error(err)
	}

	batch := cloudv1.RoutesBatch{
		Upsert: []cloudv1.RouteSpec{{Destination: "10.244.1.0/24", NextHop: cloudv1.NextHop{InstanceID: "i-node-1"}}},
	}
	must[*cloudv1.RoutesBatchResult](t)(cl.BatchRoutes(ctx, "rt-main", batch, write))
	must[*cloudv1.List[cloudv1.Route]](t)(cl.ListRoutes(ctx, "rt-main", none))
	must[*cloudv1.List[cloudv1.Job]](t)(cl.ListJobs(ctx, none))
	must[*cloudv1.Changes](t)(cl.Changes(ctx, "0", nil, 0))

	claim := cloudv1.ClusterHolderSpec{Name: "prod", Fingerprints: []string{"ca-1"}}
	held := must[*cloudv1.ClusterHolder](t)(cl.ClaimHolder(ctx, "uid-1", claim, write))
	must[*cloudv1.ClusterHolder](t)(cl.Holder(ctx, "uid-1"))
	if err := cl.DeleteHolder(ctx, "uid-1", cloudapi.WriteOptions{IfMatch: held.Revision}); err != nil {
		t.Error(err)
	}

	edge := c.register("edge-1")
	must[*cloudv1.Edge](t)(cl.Edge(ctx, edge.ID))
	must[*cloudv1.List[cloudv1.Edge]](t)(cl.ListEdges(ctx, none))
	c.beat(edge.ID, cloudv1.Heartbeat{AppliedRevision: "0"})
	must[*cloudv1.Edge](t)(cl.PatchEdge(ctx, edge.ID, cloudv1.EdgePatch{Draining: new(true)}, write))
	if err := cl.DeleteEdge(ctx, edge.ID, write); err != nil {
		t.Error(err)
	}

	pair := newPair(t, "shop.example.com")
	cert := must[*cloudv1.Certificate](t)(cl.CreateCertificate(ctx, pair.spec("shop"), write))
	must[*cloudv1.Certificate](t)(cl.Certificate(ctx, cert.ID))
	must[*cloudv1.List[cloudv1.Certificate]](t)(cl.ListCertificates(ctx, none))
	must[*cloudv1.Certificate](t)(cl.UpdateCertificate(ctx, cert.ID, pair.spec("other"), write))
	must[*cloudv1.KeyPair](t)(c.with(readerToken).KeyPair(ctx, cert.ID))
	if err := cl.DeleteCertificate(ctx, cert.ID, write); err != nil {
		t.Error(err)
	}

	issued := must[*cloudv1.NewToken](t)(cl.CreateToken(ctx, cloudv1.TokenSpec{
		Name: "ci", TokenFields: cloudv1.TokenFields{Role: cloudv1.RoleRead},
	}, write))
	must[*cloudv1.Token](t)(cl.Token(ctx, issued.ID))
	must[*cloudv1.List[cloudv1.Token]](t)(cl.ListTokens(ctx, none))
	if err := cl.DeleteToken(ctx, issued.ID, write); err != nil {
		t.Error(err)
	}

	c.send(http.MethodGet, "/healthz", nil).want(t, http.StatusOK, "")
	c.send(http.MethodGet, "/readyz", nil).want(t, http.StatusOK, "")

	// There are jobs only if writes take time.
	diff(t, "operations that this test does not use", []string{"get-job"}, c.check.unseen())
}

func member(key, address string) cloudv1.GroupMember {
	return cloudv1.GroupMember{
		Key: key, Addresses: []cloudv1.MemberAddress{{Family: "ipv4", Address: address}}, Weight: 1, State: cloudv1.MemberActive,
	}
}
