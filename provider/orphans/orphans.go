// Package orphans finds the load balancers of a cluster that none of its Services uses, and deletes those that an
// operator names. The finalizer is on a Service before it has a load balancer, so that no crash leaves an orphan: they
// come from finalizers that were removed by force, and from restored backups of etcd. Their addresses may be in use,
// therefore nothing deletes them automatically.
package orphans

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/teardown"
)

// The reasons of orphans, which decide whether they may be deleted. They are values of a metric's label.
const (
	// Unused orphans may be deleted; the others are kept.
	Unused    = "unused"
	Adopted   = "adopted"
	Protected = "protected"
	Retained  = "retained"
	Published = "published"
	Untagged  = "untagged"
)

// Reasons returns all reasons.
func Reasons() []string { return []string{Unused, Adopted, Protected, Published, Retained, Untagged} }

// Orphan is a load balancer with the tag of the cluster that no Service uses.
type Orphan struct {
	*cloudv1.LoadBalancer

	// Service is the Service that the load balancer belongs to, but that does not ask for one; nil if it does not exist.
	Service *corev1.Service
	// Publisher is the Service that publishes an address of the load balancer, although that belongs to another Service; nil
	// if there is none.
	Publisher *corev1.Service
}

// Find returns the load balancers of a cluster that none of its Services uses. A Service that has a record or an
// address, or is being deleted, uses its load balancer until the controllers have released it. owned reports whether a
// Service asks for a load balancer of ours.
func Find(all []*cloudv1.LoadBalancer, services []*corev1.Service, owned func(*corev1.Service) bool) []Orphan {
	byUID, publishers := map[string]*corev1.Service{}, map[string]*corev1.Service{}
	for _, svc := range services {
		byUID[string(svc.UID)] = svc
		if !owned(svc) || svc.DeletionTimestamp != nil {
			continue
		}
		for _, ingress := range svc.Status.LoadBalancer.Ingress {
			publishers[ingress.IP] = svc
		}
	}
	var found []Orphan
	for _, lb := range all {
		svc := byUID[lb.Tags[ownership.ServiceUID]]
		if svc != nil && (owned(svc) || held(svc)) || lb.ProvisioningState == cloudv1.ProvisioningPendingDelete {
			continue
		}
		orphan := Orphan{LoadBalancer: lb, Service: svc}
		for _, address := range lb.Addresses() {
			orphan.Publisher = cmp.Or(orphan.Publisher, publishers[address])
		}
		found = append(found, orphan)
	}
	return found
}

// held reports whether the controllers still have to release the load balancer of a Service.
func held(svc *corev1.Service) bool {
	return svc.DeletionTimestamp != nil || svc.Annotations[service.AnnotationRecord] != "" ||
		len(svc.Status.LoadBalancer.Ingress) > 0
}

// Reason returns one of Reasons.
func (o Orphan) Reason() string {
	switch {
	case o.Tags[ownership.ServiceUID] == "":
		return Untagged
	case ownership.Adopted(o.Tags):
		return Adopted
	case o.Publisher != nil:
		return Published
	case o.Service != nil && teardown.Retains(o.Service):
		return Retained
	case o.DeletionProtection:
		return Protected
	}
	return Unused
}

// Keep returns why an orphan must not be deleted, and what to do about it, or an empty string.
func (o Orphan) Keep() string {
	switch o.Reason() {
	case Untagged:
		return fmt.Sprintf("it lacks the tag %s; set it to the UID of its Service, or delete the load balancer in the cloud",
			ownership.ServiceUID)
	case Adopted:
		return fmt.Sprintf("a Service adopted it, so it is its owner's; to return it, remove its tags %s and %s",
			ownership.ClusterUID, ownership.ServiceUID)
	case Published:
		return fmt.Sprintf("Service %s/%s publishes its address; set its tag %s to %s, the UID of that Service",
			o.Publisher.Namespace, o.Publisher.Name, ownership.ServiceUID, o.Publisher.UID)
	case Retained:
		return fmt.Sprintf("Service %s/%s has retain-on-delete; remove that annotation", o.Service.Namespace, o.Service.Name)
	case Protected:
		return "it has deletion protection; switch that off in the cloud"
	}
	return ""
}
