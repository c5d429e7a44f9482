package policy

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/finding"
	engine "quaymaster.dev/internal/policy"
	"quaymaster.dev/webhook"
)

// idAlone is the finding when a policy is admitted without a look at the others.
const idAlone = "policy-others-unavailable"

// Policies knows the cluster's policies and namespaces.
type Policies interface {
	// Others are the policies but for one, and the labels of every namespace by its name. An error means that they cannot be
	// known now, which is never the user's fault.
	Others(except engine.Key) (others []*engine.Policy, namespaces map[string]map[string]string, err error)
}

// Options are what a Validator needs.
type Options struct {
	// Policies are those that a policy is judged beside.
	Policies Policies
	// OnFinding is told of each finding, for metrics; nil if nobody wants to know.
	OnFinding func(finding.Finding)
}

// Validator refuses policies with errors and shows warnings.
type Validator struct {
	o      Options
	kind   string
	decode decoder
}

var _ webhook.Admitter = (*Validator)(nil)

// NewValidator makes the admitter of LoadBalancerPolicies.
func NewValidator(o Options) *Validator {
	return &Validator{o: o, kind: v1alpha1.KindLoadBalancerPolicy, decode: decodeNamespaced}
}

// NewClusterValidator makes the admitter of ClusterLoadBalancerPolicies.
func NewClusterValidator(o Options) *Validator {
	return &Validator{o: o, kind: v1alpha1.KindClusterLoadBalancerPolicy, decode: decodeCluster}
}

// Admit refuses with 422 Invalid and one cause a problem. What was wrong before an update, or comes from another policy that
// was there before, only warns.
func (v *Validator) Admit(ctx context.Context, req *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	before, after, err := v.decode(req)
	if err != nil {
		return nil, err
	}
	if after == nil || after.beingDeleted() || before != nil && before.sameSpec(after) {
		return webhook.Allow(), nil
	}
	findings := v.validate(ctx, before, after)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("review took too long: %w", err)
	}
	kind := schema.GroupKind{Group: v1alpha1.Group, Kind: v.kind}
	return webhook.Respond(kind, webhook.ObjectName(after.meta), findings, v.o.OnFinding), nil
}

// validate compiles and compares the new policy with the others, and the old one with the same others, so that only what the update
// introduces is an error.
func (v *Validator) validate(ctx context.Context, before, after *object) []finding.Finding {
	is, findings := after.compile()
	others, namespaces, err := v.o.Policies.Others(is.Key())
	if err != nil {
		klog.FromContext(ctx).Error(err, "Judged a policy without the others", "policy", klog.KRef(after.meta.Namespace, after.meta.Name),
			"kind", v.kind, "rule", idAlone)
		findings = append(slices.Clip(findings), alone())
	} else {
		findings = slices.Concat(findings, engine.Against(is, others, namespaces))
	}
	if before == nil {
		return finding.Merge(findings)
	}
	was, old := before.compile()
	if err == nil {
		old = slices.Concat(old, engine.Against(was, others, namespaces))
	}
	return finding.Ratchet(old, findings)
}

// Rules documents the findings of this package.
func Docs() []finding.Doc {
	return []finding.Doc{{
		ID: idAlone, Severity: finding.Warning,
		Help: "A policy was admitted without being compared with the others, because they could not be read.",
	}}
}

func alone() finding.Finding {
	return finding.Finding{
		ID: idAlone, Severity: finding.Warning, Field: "spec",
		Message: "was not compared with the other policies because they are not known at the moment",
		Remedy:  "a default that breaks one of their rules will not be written",
	}
}
