package policy

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/stream"
)

// decodable has the fields of a policy that admission uses.
type decodable[Spec any] struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        webhook.Metadata   `json:"metadata"`
	Spec            stream.Whole[Spec] `json:"spec"`
}

// Object returns the policy.
func (d *decodable[Spec]) Object() webhook.Object {
	meta := d.Metadata.ObjectMeta()
	switch spec := any(d.Spec.Value).(type) {
	case v1alpha1.LoadBalancerPolicySpec:
		return &v1alpha1.LoadBalancerPolicy{TypeMeta: d.TypeMeta, ObjectMeta: meta, Spec: spec}
	case v1alpha1.ClusterLoadBalancerPolicySpec:
		return &v1alpha1.ClusterLoadBalancerPolicy{TypeMeta: d.TypeMeta, ObjectMeta: meta, Spec: spec}
	}
	return nil
}
