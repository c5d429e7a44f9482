package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"quaymaster.dev/controllers/route"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/provider/routetable"
	"quaymaster.dev/test/harness/plain"
)

// retry is how long the service controller waits while the cloud is working.
const retry = 2 * time.Second

// adapter gives the app's controllers what ours use.
type adapter struct {
	plain.Provider

	balancers *balancers
	routes    *routes
}

// LoadBalancer returns the load balancers that ours manage, too.
func (a *adapter) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return a.balancers, true }

// Routes returns the route table that ours manage, too.
func (a *adapter) Routes() (cloudprovider.Routes, bool) { return a.routes, true }

// balancers finds load balancers by their tags alone: it records nothing in Services.
type balancers struct {
	*dlb.Balancer

	synced func() bool
}

var _ cloudprovider.LoadBalancer = (*balancers)(nil)

// GetLoadBalancerName returns a name that identifies nothing.
func (b *balancers) GetLoadBalancerName(_ context.Context, _ string, svc *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(svc)
}

// GetLoadBalancer returns what the Service has published.
func (b *balancers) GetLoadBalancer(_ context.Context, _ string, svc *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	return &svc.Status.LoadBalancer, len(svc.Status.LoadBalancer.Ingress) > 0, nil
}

// EnsureLoadBalancer fails with a RetryError while the cloud is working.
func (b *balancers) EnsureLoadBalancer(
	ctx context.Context, _ string, svc *corev1.Service, _ []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	cache.WaitForCacheSync(ctx.Done(), b.synced)
	state, err := b.Ensure(ctx, svc)
	switch {
	case err != nil:
		return nil, err
	case state.Published == nil || state.RetryAfter > 0:
		return nil, cloudproviderapi.NewRetryError("the cloud is working on the load balancer", retry)
	}
	return state.Published, nil
}

// UpdateLoadBalancer does nothing: load balancers refer to node groups.
func (b *balancers) UpdateLoadBalancer(context.Context, string, *corev1.Service, []*corev1.Node) error {
	return cloudprovider.ImplementedElsewhere
}

// EnsureLoadBalancerDeleted fails with a RetryError until the load balancer is gone.
func (b *balancers) EnsureLoadBalancerDeleted(ctx context.Context, _ string, svc *corev1.Service) error {
	state, err := b.Remove(ctx, svc)
	if err == nil && !state.Gone {
		err = cloudproviderapi.NewRetryError("the cloud is deleting the load balancer", retry)
	}
	return err
}

// routes has the routes to the instances of Nodes.
type routes struct {
	table route.Table
	nodes corelisters.NodeLister
}

var _ cloudprovider.Routes = (*routes)(nil)

// ListRoutes returns the routes to Nodes that exist. The name of a route is the ID of its instance.
func (r *routes) ListRoutes(ctx context.Context, _ string) ([]*cloudprovider.Route, error) {
	list, _, _, err := r.table.List(ctx, "")
	if err != nil {
		return nil, err
	}
	nodes, err := r.nodes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	names := map[string]types.NodeName{}
	for _, node := range nodes {
		names[instanceID(node)] = types.NodeName(node.Name)
	}
	var found []*cloudprovider.Route
	for _, item := range list {
		if name, ok := names[item.Hop.InstanceID]; ok {
			found = append(found, &cloudprovider.Route{
				Name: item.Hop.InstanceID, TargetNode: name, DestinationCIDR: item.Destination.String(),
			})
		}
	}
	return found, nil
}

// CreateRoute creates a route to the instance of a Node.
func (r *routes) CreateRoute(ctx context.Context, _, _ string, wanted *cloudprovider.Route) error {
	node, err := r.nodes.Get(string(wanted.TargetNode))
	if err != nil {
		return err
	}
	id := instanceID(node)
	if id == "" {
		return fmt.Errorf("node %s has no instance yet", node.Name)
	}
	return r.change(ctx, wanted, id, false)
}

// DeleteRoute removes a route that ListRoutes has returned.
func (r *routes) DeleteRoute(ctx context.Context, _ string, unwanted *cloudprovider.Route) error {
	return r.change(ctx, unwanted, unwanted.Name, true)
}

func (r *routes) change(ctx context.Context, one *cloudprovider.Route, id string, remove bool) error {
	destination, err := netip.ParsePrefix(one.DestinationCIDR)
	if err != nil {
		return err
	}
	change := route.Change{Route: route.Route{Destination: destination, Hop: route.Hop{InstanceID: id}}, Remove: remove}
	return r.table.Change(ctx, []route.Change{change})[0]
}

// instanceID returns the ID of the Node's instance, or nothing if it is not known.
func instanceID(node *corev1.Node) string {
	id, _ := routetable.InstanceOf(node.Spec.ProviderID)
	return id
}
