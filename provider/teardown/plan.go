package teardown

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/provider/ownership"
)

// Wishes configures what is kept.
type Wishes struct {
	// IncludeProtected also deletes load balancers with deletion protection.
	IncludeProtected bool
	// Retained maps the UIDs of Services with retain-on-delete to their namespace/name. Their load balancers are kept.
	Retained map[string]string
}

// Retains reports whether the load balancer of a Service must not be deleted with it. An invalid value of the annotation
// also retains: a wrong guess would delete a load balancer that must be kept.
func Retains(svc *corev1.Service) bool {
	value, set := svc.Annotations[loadbalancer.Prefix+"retain-on-delete"]
	return set && value != "false"
}

// Item is one object of the cloud and what to do with it.
type Item struct {
	// Kind is the cloud's name of the kind.
	Kind string
	// ID and Name are the cloud's; Detail describes the object to the operator.
	ID, Name, Detail string
	// Keep is the reason why the object is kept; it is empty for objects to delete.
	Keep string

	// One of these is the object.
	Balancer *cloudv1.LoadBalancer
	Group    *cloudv1.NodeGroup
	Route    *cloudv1.Route
}

// Items returns the objects with the kinds in that order, each kind by name.
func (inv *Inventory) Items(order ...string) []Item {
	var items []Item
	for i := range inv.LoadBalancers {
		lb := &inv.LoadBalancers[i]
		items = append(items, Item{
			Kind: cloudv1.KindLoadBalancer, ID: lb.ID, Name: lb.Name, Balancer: lb, Detail: strings.Join(lb.Addresses(), ","),
		})
	}
	for i := range inv.NodeGroups {
		group := &inv.NodeGroups[i]
		items = append(items, Item{
			Kind: cloudv1.KindNodeGroup, ID: group.ID, Name: group.Name, Group: group,
			Detail: fmt.Sprintf("%d members", len(group.Members)),
		})
	}
	for i := range inv.Routes {
		route := &inv.Routes[i]
		items = append(items, Item{
			Kind: cloudv1.KindRoute, ID: route.ID, Name: route.Destination, Route: route,
			Detail: "to " + cmp.Or(route.NextHop.InstanceID, route.NextHop.Address) + " in " + route.RouteTableID,
		})
	}
	slices.SortStableFunc(items, func(a, b Item) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)), strings.Compare(a.Name, b.Name))
	})
	return items
}

// Plan decides what to delete, in this order: load balancers, because pools refer to node groups; then node groups that no remaining load balancer of the cluster needs,
// then routes. keep returns the reason why a load balancer is kept, or an empty string.
func Plan(found Inventory, keep func(*cloudv1.LoadBalancer) string) []Item {
	items := found.Items(cloudv1.KindLoadBalancer, cloudv1.KindNodeGroup, cloudv1.KindRoute)
	users := map[string]string{}
	for i := range items {
		item := &items[i]
		if item.Balancer != nil {
			item.Keep = keep(item.Balancer)
		}
		if item.Balancer != nil && item.Keep != "" {
			for _, pool := range item.Balancer.Pools {
				users[pool.NodeGroupID] = item.ID
			}
		}
		if user, used := users[item.ID]; used && item.Group != nil {
			item.Keep = fmt.Sprintf("load balancer %s, which is kept, needs it", user)
		}
	}
	return items
}

// Keep returns the reason why a load balancer is kept when its cluster is decommissioned, or an empty string.
func (w Wishes) Keep(lb *cloudv1.LoadBalancer) string {
	if service, retained := w.Retained[lb.Tags[ownership.ServiceUID]]; retained {
		return fmt.Sprintf("Service %s has retain-on-delete; delete that Service while the controllers run", service)
	}
	if ownership.Adopted(lb.Tags) {
		return fmt.Sprintf("a Service adopted it, so it is its owner's; delete that Service while the controllers run, or "+
			"remove the tags %s and %s in the cloud", ownership.ClusterUID, ownership.ServiceUID)
	}
	if lb.DeletionProtection && !w.IncludeProtected {
		return "it has deletion protection; to delete it, use --include-protected"
	}
	return ""
}
