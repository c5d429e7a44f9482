package server_test

import (
	"fmt"
	"net/http/httptest"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server"
	"quaymaster.dev/internal/mycloud/server/inventory"
)

// BenchmarkCreateLoadBalancer creates and reads load balancers whose pools refer to a node group of 1000 instances.
func BenchmarkCreateLoadBalancer(b *testing.B) {
	const members = 1000
	inv, err := inventory.Load("../../../examples/inventory.yaml")
	if err != nil {
		b.Fatal(err)
	}
	server, err := server.Open(server.Options{DataDir: b.TempDir(), Inventory: inv, Token: "t"})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	hs := httptest.NewServer(server.Handler())
	defer hs.Close()
	c, err := cloudapi.New(cloudapi.Options{Endpoint: hs.URL, Token: cloudapi.StaticToken("t"), QuotaShare: 1})
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	var group cloudv1.NodeGroupSpec
	group.Name = "nodes"
	for i := range members {
		address := fmt.Sprintf("10.9.%d.%d", i/250, i%250+1)
		instance, err := c.CreateInstance(ctx, cloudv1.InstanceSpec{
			Hostname: fmt.Sprintf("n%d", i), Type: inv.InstanceTypes[0].ID, Zone: inv.Zones[0].ID,
		}, cloudapi.WriteOptions{})
		if err != nil {
			b.Fatal(err)
		}
		group.Members = append(group.Members, cloudv1.GroupMember{
			Key: instance.ID, InstanceID: instance.ID, Weight: 1, State: cloudv1.MemberActive,
			Addresses: []cloudv1.MemberAddress{{Family: cloudv1.FamilyIPv4, Address: address}},
		})
	}
	nodes, err := c.CreateNodeGroup(ctx, group, cloudapi.WriteOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		spec := tree(fmt.Sprintf("lb-%d", i))
		for j := range spec.Pools {
			spec.Pools[j].NodeGroupID, spec.Pools[j].Members = nodes.ID, nil
		}
		lb, _, err := c.CreateLoadBalancer(ctx, spec, cloudapi.WriteOptions{})
		if err != nil {
			b.Fatal(err)
		}
		// As the controllers do.
		if _, err := c.LoadBalancer(ctx, lb.ID); err != nil {
			b.Fatal(err)
		}
	}
}
