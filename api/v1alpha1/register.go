package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of all types in this package.
const Group = "quaymaster.dev"

// The kinds of policies.
const (
	KindLoadBalancerPolicy        = "LoadBalancerPolicy"
	KindClusterLoadBalancerPolicy = "ClusterLoadBalancerPolicy"
)

// GroupVersion returns the apiVersion of manifests.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: "v1alpha1"}
}

// AddToScheme registers the types with a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(),
		&LoadBalancerPolicy{}, &LoadBalancerPolicyList{}, &ClusterLoadBalancerPolicy{}, &ClusterLoadBalancerPolicyList{})
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}
