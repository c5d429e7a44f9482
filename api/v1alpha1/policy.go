package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LoadBalancerPolicy sets defaults and limits for Services of type LoadBalancer in its namespace. Its defaults take
// precedence over those of ClusterLoadBalancerPolicies; the rules of both apply.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=lbpol,categories=quaymaster
// +kubebuilder:printcolumn:name="Enforcement",type=string,JSONPath=`.spec.enforcement`
// +kubebuilder:printcolumn:name="Services",type=integer,JSONPath=`.status.services`,description="Services that the policy applies to"
// +kubebuilder:printcolumn:name="Violating",type=integer,JSONPath=`.status.violating`,description="Services that break a rule of the policy"
// +kubebuilder:printcolumn:name="Total Max QPS",type=integer,JSONPath=`.status.maxQPS`,description="Sum of the limits of all listeners"
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type LoadBalancerPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec holds the defaults and rules of the policy.
	// +required
	Spec LoadBalancerPolicySpec `json:"spec"`
	// Status is the observed state of the policy.
	// +optional
	Status PolicyStatus `json:"status,omitempty"`
}

// LoadBalancerPolicyList is a list of LoadBalancerPolicies.
//
// +kubebuilder:object:root=true
type LoadBalancerPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LoadBalancerPolicy `json:"items"`
}

// ClusterLoadBalancerPolicy sets defaults and limits for Services of type LoadBalancer in the namespaces that it
// selects.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=clbpol,categories=quaymaster
// +kubebuilder:printcolumn:name="Enforcement",type=string,JSONPath=`.spec.enforcement`
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Services",type=integer,JSONPath=`.status.services`,description="Services that the policy applies to"
// +kubebuilder:printcolumn:name="Violating",type=integer,JSONPath=`.status.violating`,description="Services that break a rule of the policy"
// +kubebuilder:printcolumn:name="Total Max QPS",type=integer,JSONPath=`.status.maxQPS`,description="Sum of the limits of all listeners"
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterLoadBalancerPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec holds the defaults and rules of the policy.
	// +required
	Spec ClusterLoadBalancerPolicySpec `json:"spec"`
	// Status is the observed state of the policy.
	// +optional
	Status PolicyStatus `json:"status,omitempty"`
}

// ClusterLoadBalancerPolicyList is a list of ClusterLoadBalancerPolicies.
//
// +kubebuilder:object:root=true
type ClusterLoadBalancerPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterLoadBalancerPolicy `json:"items"`
}
