package dlb

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/provider/dlb/tree"
)

// Policies returns the policies of namespaces.
type Policies interface {
	// Applicable returns the policies of a namespace, in the order of precedence of their defaults. It fails while they
	// are not known.
	Applicable(ctx context.Context, namespace string) ([]*policy.Policy, error)
}

// order is what a Service asks for under the policies of its namespace.
type order struct {
	// svc is the stored Service, which Events and conditions refer to.
	svc *corev1.Service
	// parsed is the Service with the defaults of policies.
	parsed     *catalog.Parsed
	findings   []finding.Finding
	applicable []*policy.Policy
}

// read returns the order of a Service. It fails if the policies of the namespace are not known.
func (b *Balancer) read(ctx context.Context, svc *corev1.Service) (*order, error) {
	parsed := b.reviewer.Parse(svc)
	if parsed.Own() == nil || b.o.Policies == nil {
		return b.order(parsed, nil), nil
	}
	applicable, err := b.o.Policies.Applicable(ctx, svc.Namespace)
	if err != nil {
		return nil, fmt.Errorf("read the policies of namespace %s: %w", svc.Namespace, err)
	}
	return b.order(parsed, applicable), nil
}

// order returns the order of a Service under policies.
func (b *Balancer) order(parsed *catalog.Parsed, applicable []*policy.Policy) *order {
	o := &order{svc: parsed.Service, applicable: applicable}
	o.validate(b.reviewer.Default(parsed, applicable))
	return o
}

func (o *order) validate(parsed *catalog.Parsed) {
	o.parsed, o.findings = parsed, finding.Merge(parsed.Validate())
}

// keep keeps the network type and the subnet of the load balancer if the Service does not set them: they are immutable,
// and the defaults may have changed since.
func (o *order) keep(lb *cloudv1.LoadBalancer) {
	parsed := o.parsed
	if key := loadbalancer.Prefix + keyNetworkType; !o.sets(key) {
		parsed = parsed.With(map[string]string{key: tree.NetworkType(lb)})
	}
	if key := loadbalancer.Prefix + keySubnetID; !o.sets(key) {
		parsed = parsed.Without(key) // settle keeps the subnet
	}
	o.validate(parsed)
}

// sets reports whether the Service itself has an annotation.
func (o *order) sets(key string) bool {
	_, set := o.svc.Annotations[key]
	return set
}

// valid returns a refusal if there are errors among findings.
func valid(findings []finding.Finding) error {
	if text := finding.Summary(findings); text != "" {
		return &refusal{reason: reasonInvalid, message: text}
	}
	return nil
}

// open reports whether the network type depends on the published load balancer, because the Service does not set it.
// Only the load balancer then decides whether a value that depends on it, such as a subnet, is valid.
func (o *order) open() bool {
	return !o.sets(loadbalancer.Prefix+keyNetworkType) && len(o.svc.Status.LoadBalancer.Ingress) > 0
}

// obey returns a refusal if the Service newly breaks a rule, as admission does: what the actual load balancer already
// has is not new. lb is nil if there is no load balancer yet, or no longer: a published one that got lost is created
// again from the Service.
func (b *Balancer) obey(o *order, desired *loadbalancer.Desired, lb *cloudv1.LoadBalancer) error {
	var former *corev1.Service
	switch {
	case lb != nil:
		former = loadbalancer.Former(o.parsed.Own(), desired, tree.Observed(desired, lb))
	case len(o.svc.Status.LoadBalancer.Ingress) > 0:
		former = o.parsed.Service
	}
	return valid(b.reviewer.Rules(former, o.parsed, o.applicable))
}
