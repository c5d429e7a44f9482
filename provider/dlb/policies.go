package dlb

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/catalog"
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
	// parsed has the defaults that admission would have given it.
	parsed *catalog.Parsed
	// desired is nil for a Service that is not ours, and for one with errors among the findings.
	desired    *loadbalancer.Desired
	findings   []finding.Finding
	applicable []*policy.Policy
}

// read returns what a Service asks for. Without its policies that is not known.
func (b *Balancer) read(ctx context.Context, svc *corev1.Service) (*order, error) {
	o := &order{svc: svc}
	parsed := b.reviewer.Parse(svc)
	if parsed.Own() != nil && b.policies != nil {
		var err error
		if o.applicable, err = b.policies.Applicable(ctx, svc.Namespace); err != nil {
			return nil, fmt.Errorf("read the policies of namespace %s: %w", svc.Namespace, err)
		}
	}
	o.build(b.reviewer.Default(parsed, o.applicable))
	return o, nil
}

// build validates the Service and, if it has no errors, builds its desired load balancer.
func (o *order) build(parsed *catalog.Parsed) {
	o.parsed, o.desired, o.findings = parsed, nil, finding.Merge(parsed.Validate())
	if own := parsed.Own(); own != nil && len(finding.Errors(o.findings)) == 0 {
		o.desired = loadbalancer.Build(own)
	}
}

// keep makes a Service that does not set its network type or its subnet keep those that its load balancer has: they are
// immutable, and the defaults may have changed since.
func (o *order) keep(lb *cloudv1.LoadBalancer) {
	parsed := o.parsed
	if key := loadbalancer.Prefix + keyNetworkType; !o.sets(key) {
		parsed = parsed.With(map[string]string{key: networkType(lb)})
	}
	if key := loadbalancer.Prefix + keySubnetID; !o.sets(key) {
		parsed = parsed.Without(key) // settle keeps the subnet
	}
	o.build(parsed)
}

// sets reports whether the Service itself has an annotation.
func (o *order) sets(key string) bool {
	_, set := o.svc.Annotations[key]
	return set
}

// valid refuses a Service with errors.
func (o *order) valid() error {
	if len(finding.Errors(o.findings)) > 0 {
		return &refusal{reason: reasonInvalid, message: finding.Summary(o.findings)}
	}
	return nil
}

// open reports whether the Service leaves its network type to the load balancer that it has published, so that only this decides
// whether what goes with it, such as a subnet, is right.
func (o *order) open() bool {
	return !o.sets(loadbalancer.Prefix+keyNetworkType) && len(o.svc.Status.LoadBalancer.Ingress) > 0
}

// obey refuses what breaks a rule, as admission does: what the load balancer has already is not new. lb is nil where there is no load
// balancer yet, or none any more: one that was published and got lost is created again as the Service says.
func (b *Balancer) obey(o *order, lb *cloudv1.LoadBalancer) error {
	var former *corev1.Service
	switch {
	case lb != nil:
		former = loadbalancer.Former(o.parsed.Own(), o.desired, observed(o.desired, lb))
	case len(o.svc.Status.LoadBalancer.Ingress) > 0:
		former = o.parsed.Service
	}
	if findings := finding.Errors(b.reviewer.Rules(former, o.parsed, o.applicable)); len(findings) > 0 {
		return &refusal{reason: reasonInvalid, message: finding.Summary(findings)}
	}
	return nil
}
