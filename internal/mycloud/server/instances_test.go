package server_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server"
	cloudtest "quaymaster.dev/test/harness/cloud"
)

func TestInstanceLife(t *testing.T) {
	clock := newFakeClock()
	c := newCloud(t, withClock(clock))
	ctx := t.Context()
	running := must[*cloudv1.Instance](t)(c.client.StartInstance(ctx, "i-node-2", cloudapi.WriteOptions{}))
	before := must[*cloudv1.Instance](t)(c.client.Instance(ctx, "i-node-2"))
	diff(t, "starting one that runs", before, running)

	must[*cloudv1.Instance](t)(c.client.StopInstance(ctx, "i-node-2", cloudapi.WriteOptions{}))
	batch := cloudv1.RoutesBatch{
		Upsert: []cloudv1.RouteSpec{{Destination: "10.244.2.0/24", NextHop: cloudv1.NextHop{InstanceID: "i-node-2"}}},
	}
	must[*cloudv1.RoutesBatchResult](t)(c.client.BatchRoutes(ctx, "rt-main", batch, cloudapi.WriteOptions{}))
	tombstone := must[*cloudv1.Instance](t)(c.client.DeleteInstance(ctx, "i-node-2", cloudapi.WriteOptions{}))
	if tombstone.State != cloudv1.InstanceDeleted || tombstone.DeletedAt == nil ||
		!tombstone.DeletedAt.Equal(clock.Now()) {
		t.Errorf("tombstone: %+v", tombstone)
	}
	again := must[*cloudv1.Instance](t)(c.client.DeleteInstance(ctx, "i-node-2", cloudapi.WriteOptions{}))
	diff(t, "deleting twice", tombstone, again)
	c.send("POST", "/v1/instances/i-node-2:start", nil).want(t, 410, "resource-gone")

	routes := must[*cloudv1.List[cloudv1.Route]](t)(
		c.client.ListRoutes(ctx, "rt-main", cloudapi.ListOptions{State: "blackhole"}),
	)
	diff(t, "routes to the deleted instance", 1, len(routes.Items))
	volume := must[*cloudv1.Volume](t)(c.client.Volume(ctx, "vol-data-2"))
	diff(t, "its volume", "available", volume.State+volume.AttachedTo)

	live := must[*cloudv1.List[cloudv1.Instance]](t)(c.client.ListInstances(ctx, cloudapi.ListOptions{}))
	all := must[*cloudv1.List[cloudv1.Instance]](t)(
		c.client.ListInstances(ctx, cloudapi.ListOptions{IncludeDeleted: true}),
	)
	diff(t, "live and all", []int{3, 4}, []int{len(live.Items), len(all.Items)})

	look := must[*cloudv1.LookupResult](t)(c.client.LookupInstances(ctx, cloudv1.LookupRequest{
		IDs: []string{"i-node-2", "i-none"}, Hostnames: []string{"node-1", "node-2"},
	}))
	var found []string
	for _, i := range look.Items {
		found = append(found, i.ID)
	}
	diff(t, "found: by id tombstones too, by hostname who lives", []string{"i-node-2", "i-node-1"}, found)
	diff(t, "not found", []string{"i-none", "node-2"}, look.NotFound)

	// The hostname is free again.
	spec := cloudv1.InstanceSpec{Hostname: "node-2", Type: "m1.medium", Zone: "eu-1b"}
	created := must[*cloudv1.Instance](t)(c.client.CreateInstance(ctx, spec, cloudapi.WriteOptions{}))
	diff(t, "region from the zone", "eu-1", created.Region)
	a := c.send("POST", "/v1/instances", spec).want(t, 409, "name-taken")
	diff(t, "who has the hostname", &cloudv1.Reference{Kind: "instance", ID: created.ID}, a.problem.Resource)
	spec.Hostname, spec.Zone = "node-8", "eu-9z"
	diff(t, "fields at fault", []string{"/zone"}, c.send("POST", "/v1/instances", spec).want(t, 422, "invalid").pointers())

	// The tombstone is kept for seven days, but not forever.
	pass := func(d time.Duration) {
		// Expired records are deleted between two waits of the server.
		eventually(t, "the server waits", clock.HasWaiters)
		clock.Step(d)
		eventually(t, "the server waits again", clock.HasWaiters)
	}
	pass(7 * 24 * time.Hour)
	must[*cloudv1.Instance](t)(c.client.Instance(ctx, "i-node-2"))
	pass(2 * 24 * time.Hour)
	// Other parts of the server wait, too, so that the one that deletes may be a little later.
	eventually(t, "the tombstone is gone after nine days", func() bool {
		_, err := c.client.Instance(ctx, "i-node-2")
		return cloudapi.IsNotFound(err)
	})
}

func TestRestartKeepsState(t *testing.T) {
	c := newCloud(t)
	ctx := t.Context()
	must[*cloudv1.Instance](t)(c.client.DeleteInstance(ctx, "i-node-1", cloudapi.WriteOptions{}))
	must[*cloudv1.Instance](t)(c.client.StopInstance(ctx, "i-node-2", cloudapi.WriteOptions{}))
	before := must[*cloudv1.List[cloudv1.Instance]](t)(
		c.client.ListInstances(ctx, cloudapi.ListOptions{IncludeDeleted: true}),
	)
	c.stop()
	inv := exampleInventory(t)
	more := inv.Instances[0]
	more.ID, more.Hostname = "i-node-5", "node-5"
	inv.Instances = append(inv.Instances, more)
	c = newCloud(t, withDir(c.dir), withInventory(inv))
	after := must[*cloudv1.List[cloudv1.Instance]](t)(
		c.client.ListInstances(ctx, cloudapi.ListOptions{IncludeDeleted: true}),
	)
	diff(t, "instances of before", before.Items, after.Items[:4])
	diff(t, "the new one", "i-node-5", after.Items[4].ID)
}

// TestRebuiltMachine adds an instance with the hostname of another one to the inventory.
func TestRebuiltMachine(t *testing.T) {
	c := newCloud(t)
	ctx := t.Context()
	inv := exampleInventory(t)
	inv.Instances = slices.Clone(inv.Instances)
	was := inv.Instances[1]
	inv.Instances[1].ID = "i-rebuilt"
	open := func() error {
		server, err := cloudtest.OpenServer(t, server.Options{DataDir: c.dir, Inventory: inv, Token: token})
		if err == nil {
			err = server.Close()
		}
		return err
	}
	c.stop()
	if err := open(); err == nil || !strings.Contains(err.Error(), "delete that instance first") {
		t.Errorf("while the other one exists: %v", err)
	}
	c = newCloud(t, withDir(c.dir))
	must[*cloudv1.Instance](t)(c.client.DeleteInstance(ctx, was.ID, cloudapi.WriteOptions{}))
	c.stop()
	c = newCloud(t, withDir(c.dir), withInventory(inv))
	diff(t, "the new one", cloudv1.InstanceRunning,
		must[*cloudv1.Instance](t)(c.client.Instance(ctx, "i-rebuilt")).State)
	diff(t, "the tombstone", cloudv1.InstanceDeleted,
		must[*cloudv1.Instance](t)(c.client.Instance(ctx, was.ID)).State)
	found := must[*cloudv1.LookupResult](t)(
		c.client.LookupInstances(ctx, cloudv1.LookupRequest{Hostnames: []string{was.Hostname}}),
	)
	diff(t, "by hostname", []string{"i-rebuilt"}, []string{found.Items[0].ID})
}
