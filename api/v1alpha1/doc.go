// Package v1alpha1 defines the API for platform teams to set defaults and limits for the load balancers of namespaces.
//
// +kubebuilder:object:generate=true
// +groupName=quaymaster.dev
package v1alpha1
