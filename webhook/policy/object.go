package policy

import (
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/finding"
	engine "quaymaster.dev/internal/policy"
	"quaymaster.dev/webhook"
)

// LoadBalancerPolicies returns the resource of LoadBalancerPolicies.
func LoadBalancerPolicies() metav1.GroupVersionResource { return resource("loadbalancerpolicies") }

// ClusterLoadBalancerPolicies returns the resource of ClusterLoadBalancerPolicies.
func ClusterLoadBalancerPolicies() metav1.GroupVersionResource {
	return resource("clusterloadbalancerpolicies")
}

func resource(name string) metav1.GroupVersionResource {
	gv := v1alpha1.GroupVersion()
	return metav1.GroupVersionResource{Group: gv.Group, Version: gv.Version, Resource: name}
}

// object is a policy of either kind.
type object struct {
	meta metav1.ObjectMeta
	// spec is only compared.
	spec    any
	compile func() (*engine.Policy, []finding.Finding)
}

func (o *object) beingDeleted() bool { return o.meta.DeletionTimestamp != nil }

func (o *object) sameSpec(other *object) bool { return equality.Semantic.DeepEqual(o.spec, other.spec) }

// decoder decodes the policies of a request: the old one is nil on creation, both are nil on deletion.
type decoder func(req *admissionv1.AdmissionRequest) (oldPolicy, newPolicy *object, err error)

func decodeNamespaced(req *admissionv1.AdmissionRequest) (oldPolicy, newPolicy *object, err error) {
	return webhook.DecodePair(req, v1alpha1.GroupVersion().WithKind(v1alpha1.KindLoadBalancerPolicy),
		func(o *webhook.Object[v1alpha1.LoadBalancerPolicySpec, v1alpha1.PolicyStatus]) *object {
			p := &v1alpha1.LoadBalancerPolicy{ObjectMeta: o.ObjectMeta(), Spec: o.Spec}
			return &object{p.ObjectMeta, p.Spec, func() (*engine.Policy, []finding.Finding) { return engine.Compile(p) }}
		})
}

func decodeCluster(req *admissionv1.AdmissionRequest) (oldPolicy, newPolicy *object, err error) {
	return webhook.DecodePair(req, v1alpha1.GroupVersion().WithKind(v1alpha1.KindClusterLoadBalancerPolicy),
		func(o *webhook.Object[v1alpha1.ClusterLoadBalancerPolicySpec, v1alpha1.PolicyStatus]) *object {
			p := &v1alpha1.ClusterLoadBalancerPolicy{ObjectMeta: o.ObjectMeta(), Spec: o.Spec}
			return &object{p.ObjectMeta, p.Spec, func() (*engine.Policy, []finding.Finding) { return engine.CompileCluster(p) }}
		})
}
