package dlb

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/provider/dlb/census"
	"quaymaster.dev/provider/dlb/record"
)

// mayCreate returns a refusal if a Service must not get a load balancer with these addresses because others are missing: if
// the cloud chooses an address, it might be one that another Service publishes.
func (b *Balancer) mayCreate(ctx context.Context, r *round, vips []cloudv1.VIP) error {
	chosen := slices.ContainsFunc(vips, func(v cloudv1.VIP) bool { return v.Address == "" })
	published := len(r.svc.Status.LoadBalancer.Ingress) > 0
	if !chosen || published && record.Abandoned(r.svc) {
		return nil
	}
	// Whether what is published may be replaced was decided before; records alone can be forged.
	if why := b.census.Held(ctx); why != "" && !published {
		return &refusal{reason: reasonMissing, after: absentPeriod, message: "no load balancer is created: " + why + census.ToResume}
	}
	if b.census.Auditing(r.svc.Namespace) {
		return &refusal{reason: reasonMissing, after: auditPeriod, message: "no load balancer is created before the cloud has " +
			"confirmed which of those that services publish are missing, and has them again: it might get one of their addresses"}
	}
	return nil
}

// checkPublished returns a refusal if another Service publishes an address of the load balancer: its own load balancer had
// the address, and is missing.
func (b *Balancer) checkPublished(r *round, published *corev1.LoadBalancerStatus) error {
	if published == nil || equality.Semantic.DeepEqual(published, &r.svc.Status.LoadBalancer) {
		return nil
	}
	for _, ingress := range published.Ingress {
		already := func(own corev1.LoadBalancerIngress) bool { return own.IP == ingress.IP }
		if slices.ContainsFunc(r.svc.Status.LoadBalancer.Ingress, already) {
			continue
		}
		if other := b.census.Publisher(ingress.IP); other != nil && other.UID != r.svc.UID {
			return &refusal{reason: reasonAddressInUse, after: absentPeriod, message: fmt.Sprintf(
				"load balancer %s has the address %s, which service %s/%s publishes, so it is not published; to keep it for that "+
					"service, delete this one; to give it up there, set the annotation %s on that service",
				r.lb.ID, ingress.IP, other.Namespace, other.Name, record.AnnotationAbandon)}
		}
	}
	return nil
}
