package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/providerid"
)

// routes manages the routes to the pods of Nodes: the next hop of a route is the Node's instance.
type routes struct {
	cloud   *cloudapi.Client
	cluster *ownership.Cluster
	tableID string
	// instances looks up the instances of Nodes that are not initialised yet.
	instances *instancesV2

	nodes  corelisters.NodeLister
	synced cache.InformerSynced
}

var _ cloudprovider.Routes = (*routes)(nil)

func (r *routes) setNodes(nodes corelisters.NodeLister, synced cache.InformerSynced) {
	r.nodes, r.synced = nodes, synced
}

// ListRoutes returns the cluster's routes. A route whose instance belongs to no Node is a black hole, which the caller
// deletes. While the instance of some Node is unknown, such a route may be that Node's and is left out. A route's name
// is its next hop, for DeleteRoute.
func (r *routes) ListRoutes(ctx context.Context, _ string) ([]*cloudprovider.Route, error) {
	if r.synced == nil || !r.synced() {
		return nil, errors.New("list routes: the nodes are not synced yet")
	}
	tags, err := r.cluster.Tags(ctx)
	if err != nil {
		return nil, err
	}
	list, err := r.cloud.ListRoutes(ctx, r.tableID, cloudapi.ListOptions{Tags: tags})
	if err != nil {
		return nil, err
	}
	nodes, err := r.nodes.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	names, complete := byInstance(nodes)
	var found []*cloudprovider.Route
	for i := range list.Items {
		route := &list.Items[i]
		name, known := names[route.NextHop.InstanceID]
		if !known && !complete {
			continue
		}
		found = append(found, &cloudprovider.Route{
			Name: hopName(route.NextHop), TargetNode: name, DestinationCIDR: route.Destination, Blackhole: !known,
		})
	}
	return found, nil
}

// byInstance returns the Nodes' names by instance. complete reports whether every Node's instance is known.
func byInstance(nodes []*corev1.Node) (names map[string]types.NodeName, complete bool) {
	names, complete = make(map[string]types.NodeName, len(nodes)), true
	for _, node := range nodes {
		id, err := providerid.Parse(node.Spec.ProviderID)
		if err != nil {
			complete = complete && errors.Is(err, providerid.ErrForeign) && node.Spec.ProviderID != ""
			continue
		}
		names[id] = types.NodeName(node.Name)
	}
	return names, complete
}

// CreateRoute creates a route, or moves one of the cluster's routes that has another next hop. The cloud chooses the
// name.
func (r *routes) CreateRoute(ctx context.Context, _, _ string, route *cloudprovider.Route) error {
	hop, err := r.nextHop(ctx, route.TargetNode)
	if err != nil {
		return err
	}
	tags, err := r.cluster.Tags(ctx)
	if err != nil {
		return err
	}
	spec := cloudv1.RouteSpec{Destination: route.DestinationCIDR, NextHop: hop, Tags: tags}
	return r.batch(ctx, cloudv1.RoutesBatch{Upsert: []cloudv1.RouteSpec{spec}})
}

// nextHop returns the Node's instance. If the Node is not initialised yet, the instance is found as for its
// initialisation, so that its pods need not wait until the routes are synced again.
func (r *routes) nextHop(ctx context.Context, name types.NodeName) (cloudv1.NextHop, error) {
	if r.nodes == nil {
		return cloudv1.NextHop{}, errors.New("create route: the nodes are not synced yet")
	}
	node, err := r.nodes.Get(string(name))
	if err != nil {
		return cloudv1.NextHop{}, fmt.Errorf("create route: %w", err)
	}
	if node.Spec.ProviderID == "" {
		instance, err := r.instances.find(ctx, node)
		if err != nil {
			return cloudv1.NextHop{}, fmt.Errorf("create route: %w", err)
		}
		return cloudv1.NextHop{InstanceID: instance.ID}, nil
	}
	id, err := providerid.Parse(node.Spec.ProviderID)
	return cloudv1.NextHop{InstanceID: id}, err
}

// DeleteRoute removes one of the cluster's routes if its next hop is still the one that ListRoutes returned: the
// controller creates routes concurrently, and a new Node may have taken over the destination. It is not an error if the
// route is already gone or has another next hop.
func (r *routes) DeleteRoute(ctx context.Context, _ string, route *cloudprovider.Route) error {
	removal := cloudv1.RouteRemoval{Destination: route.DestinationCIDR, NextHop: namedHop(route.Name)}
	err := r.batch(ctx, cloudv1.RoutesBatch{Remove: []cloudv1.RouteRemoval{removal}})
	if cloudapi.IsNotFound(err) || cloudapi.HasCode(err, cloudv1.CodeConflict, cloudv1.CodeDestinationTaken) {
		return nil
	}
	return err
}

// hopName encodes a next hop as the name of a route; namedHop decodes it.
func hopName(hop cloudv1.NextHop) string { return cmp.Or(hop.InstanceID, hop.Address) }

func namedHop(name string) *cloudv1.NextHop {
	if _, err := netip.ParseAddr(name); err == nil {
		return &cloudv1.NextHop{Address: name}
	}
	return &cloudv1.NextHop{InstanceID: name}
}

// batch sends one operation and returns its problem as the error.
func (r *routes) batch(ctx context.Context, batch cloudv1.RoutesBatch) error {
	tags, err := r.cluster.Tags(ctx)
	if err != nil {
		return err
	}
	result, err := r.cloud.BatchRoutes(ctx, r.tableID, batch, cloudapi.WriteOptions{IfTags: tags})
	if err != nil {
		return err
	}
	for _, one := range result.Results {
		if one.Error != nil {
			return &cloudapi.Error{Method: one.Op, Path: one.Destination, Status: one.Status, Problem: one.Error}
		}
	}
	return nil
}
