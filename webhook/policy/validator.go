package policy

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/finding"
	engine "quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/webhook"
)

// Policies reads the cluster's policies and namespaces.
type Policies interface {
	// Others returns the policies except for one, and the labels of every namespace by its name. An error means that
	// they are temporarily unavailable, which is never the user's mistake.
	Others(except engine.Key) (others []*engine.Policy, namespaces map[string]map[string]string, err error)
}

// Options holds the dependencies of the Admitters of this package.
type Options struct {
	// Policies reads the policies that a policy is compared with.
	Policies Policies
}

// NewValidator returns the Admitter of LoadBalancerPolicies. It denies policies with errors and shows warnings.
func NewValidator(o Options) webhook.Admitter {
	return admitter[v1alpha1.LoadBalancerPolicySpec]("loadbalancerpolicies", v1alpha1.KindLoadBalancerPolicy, o)
}

// NewClusterValidator returns the Admitter of ClusterLoadBalancerPolicies, which does the same.
func NewClusterValidator(o Options) webhook.Admitter {
	return admitter[v1alpha1.ClusterLoadBalancerPolicySpec](
		"clusterloadbalancerpolicies", v1alpha1.KindClusterLoadBalancerPolicy, o)
}

func admitter[Spec any](resource, kind string, o Options) webhook.Admitter {
	return webhook.Admitter{
		Resource: v1alpha1.GroupVersion().WithResource(resource), Kind: kind,
		Decodable: func() webhook.Decodable { return &decodable[Spec]{} }, Admit: o.admit,
	}
}

// admit denies with 422 Invalid and one cause per problem. A problem that existed before an update, or that comes from
// another existing policy, only causes a warning.
func (o *Options) admit(ctx context.Context, req *webhook.Request) (*admissionv1.AdmissionResponse, error) {
	// Of the metadata, nothing is read that an update could change.
	if equality.Semantic.DeepEqual(req.Old, req.New) {
		return webhook.Allow(), nil
	}
	findings := o.validate(ctx, req.Old, req.New)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("validate policy: %w", err)
	}
	return req.Respond(findings), nil
}

// validate compares both the new and the old policy with the same others, so that the difference is due to the update
// alone.
func (o *Options) validate(ctx context.Context, oldPolicy, newPolicy webhook.Object) []finding.Finding {
	compiled, findings := engine.Compile(newPolicy)
	others, namespaces, err := o.Policies.Others(compiled.Key())
	if err != nil {
		klog.FromContext(ctx).Error(err, "Admitted policy without comparing it with the others",
			"policy", klog.KObj(newPolicy), "kind", compiled.Key().Kind, "rule", review.IDPolicyOthersUnavailable)
		findings = append(slices.Clip(findings), othersUnavailable())
	} else {
		findings = slices.Concat(findings, engine.Against(compiled, others, namespaces))
	}
	if oldPolicy == nil {
		return finding.Merge(findings)
	}
	oldCompiled, oldFindings := engine.Compile(oldPolicy)
	if err == nil {
		oldFindings = slices.Concat(oldFindings, engine.Against(oldCompiled, others, namespaces))
	}
	return finding.Ratchet(oldFindings, findings)
}

func othersUnavailable() finding.Finding {
	return finding.Finding{
		ID: review.IDPolicyOthersUnavailable, Severity: finding.Warning, Field: "spec",
		Message: "was not compared with the other policies because they are temporarily unavailable",
		Remedy:  "defaults that break a rule of another policy will not be added to Services",
	}
}
