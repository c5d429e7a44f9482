// Package teardown deletes a cluster's objects in the cloud when the cluster is decommissioned. The plan is made
// without the cloud; every delete is sent with the preconditions under which it was planned.
package teardown

import (
	"context"
	"errors"
	"fmt"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/ownership"
)

// errDegraded is returned so that an incomplete list is not taken for a clean cloud.
var errDegraded = errors.New("the cloud is degraded and may not list all objects; try again later")

// Inventory holds the objects in the cloud that have a cluster's tag. Objects that were released, such as retained load
// balancers, no longer have it.
type Inventory struct {
	LoadBalancers []cloudv1.LoadBalancer
	NodeGroups    []cloudv1.NodeGroup
	Routes        []cloudv1.Route
}

// Take lists the objects of the cluster with the UID. It fails if it cannot list all of them.
func Take(ctx context.Context, cloud *cloudapi.Client, clusterUID string) (Inventory, error) {
	balancers, err := LoadBalancers(ctx, cloud, clusterUID)
	if err != nil {
		return Inventory{}, err
	}
	tags := map[string]string{ownership.ClusterUID: clusterUID}
	options := cloudapi.ListOptions{Tags: tags}
	groups, err := cloud.ListNodeGroups(ctx, options)
	if err != nil {
		return Inventory{}, fmt.Errorf("list node groups: %w", err)
	}
	routes, err := listRoutes(ctx, cloud, options)
	if err != nil {
		return Inventory{}, fmt.Errorf("list routes: %w", err)
	}
	return Inventory{
		LoadBalancers: balancers,
		NodeGroups:    bearing(groups.Items, tags, (*cloudv1.NodeGroup).Metadata),
		Routes:        bearing(routes, tags, (*cloudv1.Route).Metadata),
	}, nil
}

// LoadBalancers lists the load balancers of the cluster with the UID. It fails if it cannot list all of them.
func LoadBalancers(ctx context.Context, cloud *cloudapi.Client, clusterUID string) ([]cloudv1.LoadBalancer, error) {
	meta, err := cloud.Meta(ctx)
	if err != nil {
		return nil, err
	}
	if meta.Status != cloudv1.StatusOK {
		return nil, errDegraded
	}
	tags := map[string]string{ownership.ClusterUID: clusterUID}
	list, err := cloud.ListLoadBalancers(ctx, cloudapi.ListOptions{Tags: tags})
	if err != nil {
		return nil, fmt.Errorf("list load balancers: %w", err)
	}
	return bearing(list.Items, tags, (*cloudv1.LoadBalancer).Metadata), nil
}

// listRoutes reads the routes of all tables: only the cloud config knows which one the cluster used, and it may have
// changed.
func listRoutes(ctx context.Context, cloud *cloudapi.Client, options cloudapi.ListOptions) ([]cloudv1.Route, error) {
	tables, err := cloud.ListRouteTables(ctx, cloudapi.ListOptions{})
	if err != nil {
		return nil, err
	}
	var all []cloudv1.Route
	for i := range tables.Items {
		list, err := cloud.ListRoutes(ctx, tables.Items[i].ID, options)
		if err != nil {
			return nil, err
		}
		all = append(all, list.Items...)
	}
	return all, nil
}

// bearing filters a list again that the cloud has filtered by the tags: if the cloud ignored that, other owners would
// lose their objects.
func bearing[T any](items []T, wanted map[string]string, meta func(*T) *cloudv1.Object) []T {
	var found []T
	for i := range items {
		if ownership.Bears(meta(&items[i]).Tags, wanted) {
			found = append(found, items[i])
		}
	}
	return found
}
