package service

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// Rehearse calls Balancers for a Service as a pass of a Controller with the loadBalancerClass would, and writes nothing
// to the Service.
func Rehearse(ctx context.Context, balancers Balancers, class string, svc *corev1.Service) (State, error) {
	o := ownership{finalizer: Finalizer(class)}
	switch o.decide(svc, balancers.Owned(svc)) {
	case ensure:
		claimed := svc.DeepCopy()
		o.claim(claimed)
		return balancers.Ensure(ctx, claimed)
	case remove:
		return balancers.Remove(ctx, svc)
	case leave:
	}
	return State{}, nil
}
