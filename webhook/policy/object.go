package policy

import (
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/finding"
	engine "quaymaster.dev/internal/policy"
	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/stream"
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

// decoder returns the policies of a request: the old one is nil on creation, both are nil on deletion.
type decoder func(req *admissionv1.AdmissionRequest) (oldPolicy, newPolicy *object, err error)

func decodeNamespaced(req *admissionv1.AdmissionRequest) (oldPolicy, newPolicy *object, err error) {
	return pair(req, v1alpha1.KindLoadBalancerPolicy, readNamespaced, func(p *v1alpha1.LoadBalancerPolicy) *object {
		return &object{p.ObjectMeta, p.Spec, func() (*engine.Policy, []finding.Finding) { return engine.Compile(p) }}
	})
}

func decodeCluster(req *admissionv1.AdmissionRequest) (oldPolicy, newPolicy *object, err error) {
	return pair(req, v1alpha1.KindClusterLoadBalancerPolicy, readCluster, func(p *v1alpha1.ClusterLoadBalancerPolicy) *object {
		return &object{p.ObjectMeta, p.Spec, func() (*engine.Policy, []finding.Finding) { return engine.CompileCluster(p) }}
	})
}

func pair[P interface {
	comparable
	webhook.Object
}](req *admissionv1.AdmissionRequest, kind string, read func(*stream.Reader) P, convert func(P) *object) (oldPolicy, newPolicy *object, err error) {
	from, to, err := webhook.ReadPair(req, v1alpha1.GroupVersion().WithKind(kind), read)
	var none P
	if from != none {
		oldPolicy = convert(from)
	}
	if to != none {
		newPolicy = convert(to)
	}
	return oldPolicy, newPolicy, err
}

var _ webhook.ObjectReader = (*Validator)(nil)

// ReadObject reads a policy of the Validator's kind.
func (v *Validator) ReadObject(r *stream.Reader) runtime.Object {
	if v.kind == v1alpha1.KindClusterLoadBalancerPolicy {
		return readCluster(r)
	}
	return readNamespaced(r)
}

func readNamespaced(r *stream.Reader) *v1alpha1.LoadBalancerPolicy {
	p := &v1alpha1.LoadBalancerPolicy{}
	read(r, &p.TypeMeta, &p.ObjectMeta, &p.Spec)
	return p
}

func readCluster(r *stream.Reader) *v1alpha1.ClusterLoadBalancerPolicy {
	p := &v1alpha1.ClusterLoadBalancerPolicy{}
	read(r, &p.TypeMeta, &p.ObjectMeta, &p.Spec)
	return p
}

// read reads those parts of a policy that admission uses.
func read(r *stream.Reader, kind *metav1.TypeMeta, meta *metav1.ObjectMeta, spec any) {
	for name := range r.Members() {
		switch {
		case webhook.ReadMember(r, name, kind, meta, func([]byte) bool { return false }):
		case string(name) == "spec":
			r.Unmarshal(spec)
		default:
			r.Skip()
		}
	}
}
