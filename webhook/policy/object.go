package policy

import (
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/api/v1alpha1"
	engine "quaymaster.dev/internal/policy"
	"quaymaster.dev/internal/rules"
	"quaymaster.dev/webhook"
)

// LoadBalancerPolicies is the resource of policies of a namespace.
func LoadBalancerPolicies() metav1.GroupVersionResource { return resource("loadbalancerpolicies") }

// ClusterLoadBalancerPolicies is the resource of policies of the cluster.
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
	// spec is compared, not read.
	spec    any
	compile func() (*engine.Policy, []rules.Finding)
}

func (o *object) beingDeleted() bool { return o.meta.DeletionTimestamp != nil }

func (o *object) sameSpec(other *object) bool { return equality.Semantic.DeepEqual(o.spec, other.spec) }

// decoder reads an object of a request.
type decoder func(field string, raw []byte) (*object, error)

func decodeNamespaced(field string, raw []byte) (*object, error) {
	p := &v1alpha1.LoadBalancerPolicy{}
	gvk := v1alpha1.GroupVersion().WithKind(v1alpha1.KindLoadBalancerPolicy)
	if err := webhook.Decode(field, raw, gvk, p); err != nil {
		return nil, err
	}
	return &object{p.ObjectMeta, p.Spec, func() (*engine.Policy, []rules.Finding) { return engine.Compile(p) }}, nil
}

func decodeCluster(field string, raw []byte) (*object, error) {
	p := &v1alpha1.ClusterLoadBalancerPolicy{}
	gvk := v1alpha1.GroupVersion().WithKind(v1alpha1.KindClusterLoadBalancerPolicy)
	if err := webhook.Decode(field, raw, gvk, p); err != nil {
		return nil, err
	}
	return &object{p.ObjectMeta, p.Spec, func() (*engine.Policy, []rules.Finding) { return engine.CompileCluster(p) }}, nil
}

// pair reads the policies of a request: the old one is nil on creation, both are nil on deletion.
func (decode decoder) pair(req *admissionv1.AdmissionRequest) (before, after *object, err error) {
	switch req.Operation {
	case admissionv1.Create:
		after, err = decode("request.object", req.Object.Raw)
	case admissionv1.Update:
		if after, err = decode("request.object", req.Object.Raw); err == nil {
			before, err = decode("request.oldObject", req.OldObject.Raw)
		}
	default:
		// A deletion has only the old policy, about which there is nothing to say.
	}
	return before, after, err
}
