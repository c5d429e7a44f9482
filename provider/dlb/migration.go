package dlb

import (
	corev1 "k8s.io/api/core/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
)

// AnnotationRecord is the annotation with the record of a Service's load balancer.
const AnnotationRecord = service.AnnotationRecord

// RecordedID returns the ID of the load balancer that a Service records, or an empty string.
func RecordedID(svc *corev1.Service) string { return recordOf(svc).ID }

// MigratedRecord returns the record of a Service for a load balancer that was another Service's. If the Service was
// restored with the record of that one, what it says about the load balancer still holds.
func MigratedRecord(svc *corev1.Service, lb *cloudv1.LoadBalancer) string {
	r := recordOf(svc)
	if r.ID != lb.ID {
		r = record{ID: lb.ID}
	}
	// The Service is not known to be configured as it is.
	r.Owner, r.Service, r.Deleting, r.Addresses, r.NodeGroup = string(svc.UID), "", false, lb.Addresses(), ""
	if len(lb.Pools) > 0 {
		r.NodeGroup = lb.Pools[0].NodeGroupID
	}
	return r.encode()
}
