// Package v1alpha1 is the API by which platform teams give the load balancers of namespaces their defaults and limits.
//
// +kubebuilder:object:generate=true
// +groupName=quaymaster.dev
package v1alpha1
