package dlb

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/internal/policy"
)

// Policies know what platform teams say about namespaces.
type Policies interface {
	// Applicable are the policies of a namespace, in the order in which their defaults win. An error means that they cannot be
	// known now.
	Applicable(ctx context.Context, namespace string) ([]*policy.Policy, error)
}

// order is what a Service asks for, under the policies of its namespace.
type order struct {
	// svc is the Service as it is stored: Events and conditions are about it.
	svc *corev1.Service
	// completed has the defaults that admission would have given it.
	completed *corev1.Service
	// desired is nil for a Service that is not ours, and for one with errors among the findings.
	desired    *loadbalancer.Desired
	findings   []finding.Finding
	applicable []*policy.Policy
}

// read goes from a Service to what it asks for. Without its policies nothing is known of that.
func (b *Balancer) read(ctx context.Context, svc *corev1.Service) (*order, error) {
	o := &order{svc: svc, completed: svc}
	if loadbalancer.Owned(svc, b.judge.Options) && b.policies != nil {
		var err error
		if o.applicable, err = b.policies.Applicable(ctx, svc.Namespace); err != nil {
			return nil, fmt.Errorf("read the policies of namespace %s: %w", svc.Namespace, err)
		}
		o.completed, _ = b.judge.Complete(svc, o.applicable)
	}
	o.desired, o.findings = loadbalancer.Build(o.completed, b.judge.Options)
	return o, nil
}

// keep makes a Service that does not name its network type or its subnet keep those that its load balancer has: they are
// immutable, and the defaults may have changed since.
func (b *Balancer) keep(o *order, lb *cloudv1.LoadBalancer) {
	completed := *o.completed
	completed.Annotations = map[string]string{}
	maps.Copy(completed.Annotations, o.completed.Annotations)
	if key := loadbalancer.Prefix + keyNetworkType; !o.names(key) {
		completed.Annotations[key] = networkType(lb)
	}
	if key := loadbalancer.Prefix + keySubnetID; !o.names(key) {
		delete(completed.Annotations, key) // settle takes what there is
	}
	o.completed = &completed
	o.desired, o.findings = loadbalancer.Build(&completed, b.judge.Options)
}

// names tells whether the Service itself has an annotation.
func (o *order) names(key string) bool {
	_, named := o.svc.Annotations[key]
	return named
}

// valid refuses a Service with errors.
func (o *order) valid() error {
	if len(finding.Errors(o.findings)) > 0 {
		return &refusal{reason: reasonInvalid, message: finding.Summary(o.findings)}
	}
	return nil
}

// open tells whether the Service leaves its network type to the load balancer that it has published, so that only this tells
// whether what goes with it, such as a subnet, is right.
func (o *order) open() bool {
	return !o.names(loadbalancer.Prefix+keyNetworkType) && len(o.svc.Status.LoadBalancer.Ingress) > 0
}

// obey refuses what breaks a rule, as admission does: what the load balancer has already is not new. It is nil where there is
// no load balancer yet, or none any more: one that was published and got lost comes back as the Service says.
func (b *Balancer) obey(o *order, lb *cloudv1.LoadBalancer) error {
	var former *corev1.Service
	switch {
	case lb != nil:
		former = loadbalancer.Former(o.completed, o.desired, observed(o.desired, lb))
	case len(o.svc.Status.LoadBalancer.Ingress) > 0:
		former = o.completed
	}
	if findings := finding.Errors(b.judge.Review(former, o.completed, o.applicable)); len(findings) > 0 {
		return &refusal{reason: reasonInvalid, message: finding.Summary(findings)}
	}
	return nil
}
