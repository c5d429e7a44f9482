// Package migrate moves the objects of one cluster in the cloud to another cluster: load balancers keep their IDs and
// addresses, and get the Services with the same names as their owners. The plan is made without the cloud; every write
// is sent with the preconditions under which it was planned.
package migrate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/provider/dlb/record"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/teardown"
)

// Cluster is a cluster as the cloud knows it.
type Cluster struct {
	// UID is the value of the tag of its objects, ID the prefix of the names of its load balancers.
	UID, ID string
	// Owned are its objects in the cloud.
	Owned teardown.Inventory
}

// Item is one object of the cloud and what to do with it.
type Item struct {
	// Keep is the reason why the object stays with the old cluster; it is empty for objects to move.
	teardown.Item

	// Service is the namespace/name of the new owner of a load balancer.
	Service string
	service *corev1.Service
}

// Plan decides what moves from one cluster to another, whose Services with load balancers of ours are given: node groups
// first, because pools refer to them, then load balancers, then routes.
func Plan(from, to Cluster, services []corev1.Service) []Item {
	var items []Item
	owners := match(from, services)
	for _, object := range from.Owned.Items(cloudv1.KindNodeGroup, cloudv1.KindLoadBalancer, cloudv1.KindRoute) {
		item := Item{Item: object}
		if object.Group != nil {
			item.Keep = keepGroup(object.Group, to)
		}
		if object.Balancer != nil {
			item.service, item.Keep = owners.of(object.Balancer, to)
		}
		if item.service != nil {
			item.Service = nameOf(item.service)
		}
		items = append(items, item)
	}
	return items
}

// keepGroup returns the reason why a node group stays, or an empty string: there must not be two of the same name.
func keepGroup(group *cloudv1.NodeGroup, to Cluster) string {
	for i := range to.Owned.NodeGroups {
		own := &to.Owned.NodeGroups[i]
		if own.Tags[ownership.IngressGroup] == group.Tags[ownership.IngressGroup] {
			return fmt.Sprintf("the new cluster has its own, %s, which load balancers will use after the migration", own.ID)
		}
	}
	return ""
}

// owners finds the Services that the load balancers of a cluster may belong to.
type owners struct {
	from Cluster
	// candidates are by the ID of the load balancer.
	candidates map[string][]*corev1.Service
	// namesakes are those Services that a load balancer is named after, whether or not they are candidates.
	namesakes map[string][]*corev1.Service
}

// match finds the Services of load balancers: by what a Service records, else by the name that is unique, else by the
// plain name, which those of two Services may share.
func match(from Cluster, services []corev1.Service) owners {
	o := owners{from: from, candidates: map[string][]*corev1.Service{}, namesakes: map[string][]*corev1.Service{}}
	matched := map[*corev1.Service]bool{}
	for _, fits := range []func(*corev1.Service, *cloudv1.LoadBalancer) bool{records, o.unique, o.plain} {
		var now []*corev1.Service
		for i := range from.Owned.LoadBalancers {
			lb := &from.Owned.LoadBalancers[i]
			if len(o.candidates[lb.ID]) > 0 {
				continue
			}
			for j := range services {
				if svc := &services[j]; !matched[svc] && fits(svc, lb) {
					o.candidates[lb.ID] = append(o.candidates[lb.ID], svc)
					now = append(now, svc)
				}
			}
		}
		for _, svc := range now {
			matched[svc] = true
		}
	}
	for i := range from.Owned.LoadBalancers {
		lb := &from.Owned.LoadBalancers[i]
		for j := range services {
			if svc := &services[j]; o.named(svc, lb) {
				o.namesakes[lb.ID] = append(o.namesakes[lb.ID], svc)
			}
		}
	}
	return o
}

func records(svc *corev1.Service, lb *cloudv1.LoadBalancer) bool { return record.Of(svc).ID == lb.ID }

func (o owners) unique(svc *corev1.Service, lb *cloudv1.LoadBalancer) bool {
	_, unique := dlb.Names(o.from.ID, o.from.UID, svc)
	return lb.Name == unique
}

func (o owners) plain(svc *corev1.Service, lb *cloudv1.LoadBalancer) bool {
	plain, _ := dlb.Names(o.from.ID, o.from.UID, svc)
	return lb.Name == plain
}

func (o owners) named(svc *corev1.Service, lb *cloudv1.LoadBalancer) bool {
	return o.unique(svc, lb) || o.plain(svc, lb)
}

// of returns the Service that a load balancer will belong to, or the reason why it stays.
func (o owners) of(lb *cloudv1.LoadBalancer, to Cluster) (svc *corev1.Service, keep string) {
	found := o.candidates[lb.ID]
	switch {
	case lb.ProvisioningState == cloudv1.ProvisioningPendingDelete:
		return nil, "it is being deleted"
	case len(found) == 0:
		return nil, "no Service of the new cluster has its name or records it"
	case len(found) > 1:
		return nil, ambiguous(lb, found[0], found[1])
	}
	svc = found[0]
	if other := record.Of(svc).ID; other != "" && other != lb.ID {
		return nil, fmt.Sprintf("Service %s records load balancer %s; remove its annotation %s to migrate this one",
			nameOf(svc), other, service.AnnotationRecord)
	}
	// Users can edit what their Services record, but not what a load balancer is named after.
	for _, namesake := range o.namesakes[lb.ID] {
		if !o.named(svc, lb) && record.Of(namesake).ID == "" {
			return nil, ambiguous(lb, svc, namesake)
		}
	}
	if svc.DeletionTimestamp != nil {
		return nil, fmt.Sprintf("Service %s is being deleted", nameOf(svc))
	}
	for i := range to.Owned.LoadBalancers {
		if own := &to.Owned.LoadBalancers[i]; own.Tags[ownership.ServiceUID] == string(svc.UID) {
			return nil, fmt.Sprintf("Service %s already has load balancer %s; delete that one in the cloud to migrate this one",
				nameOf(svc), own.ID)
		}
	}
	for id, others := range o.candidates {
		if id != lb.ID && len(others) == 1 && others[0] == svc {
			return nil, fmt.Sprintf("Service %s has the name of load balancer %s, too; set its annotation %s to {\"id\":\"…\"}",
				nameOf(svc), id, service.AnnotationRecord)
		}
	}
	return svc, ""
}

func ambiguous(lb *cloudv1.LoadBalancer, one, other *corev1.Service) string {
	return fmt.Sprintf("Services %s and %s have its name or record it; set the annotation %s of the right one to "+
		`{"id":%q}, and remove it from the other`, nameOf(one), nameOf(other), service.AnnotationRecord, lb.ID)
}

func nameOf(svc *corev1.Service) string { return svc.Namespace + "/" + svc.Name }
