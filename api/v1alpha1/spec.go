package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// LoadBalancerPolicySpec holds defaults and rules for Services of type LoadBalancer.
type LoadBalancerPolicySpec struct {
	// Defaults are annotations that are added to a Service that lacks them, when it is created or becomes a load
	// balancer. A default that breaks a rule or would make the Service invalid is never added. The Service's annotation
	// quaymaster.dev/defaulted records which policy set which key.
	// +optional
	// +mapType=granular
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.size() <= 317 && self[key].size() <= 1024)",message="keys must be at most 317 and values at most 1024 characters long"
	Defaults map[string]string `json:"defaults,omitempty"`

	// Rules limit the annotations of Services. The rules of all policies that apply to a namespace are enforced.
	// +optional
	// +listType=map
	// +listMapKey=annotation
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Rules []Rule `json:"rules,omitempty"`

	// Enforcement determines what happens to a Service that breaks a rule: Deny denies the request, Warn shows a
	// warning to the user, and Audit only counts the Service in the policy's status and in metrics. An update is never
	// denied for problems that the Service already had.
	// +optional
	// +default="Deny"
	Enforcement Enforcement `json:"enforcement,omitempty"`
}

// ClusterLoadBalancerPolicySpec holds defaults and rules for several namespaces.
type ClusterLoadBalancerPolicySpec struct {
	// NamespaceSelector selects namespaces by their labels. An empty selector selects all namespaces.
	// +optional
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// Priority determines which default is used if several cluster policies set one for the same key: that of the
	// policy with the highest priority or, among equals, with the first name. A LoadBalancerPolicy in the namespace
	// takes precedence over all cluster policies.
	// +optional
	// +default=0
	Priority int32 `json:"priority"`

	// Catalogs are the annotation catalogs that validate Services of the namespaces at admission, instead of those that
	// the webhooks were installed with: mycloud, or the names of other clouds. If several policies set catalogs, the
	// policy whose defaults take precedence is used. LoadBalancerPolicy does not have this field, because users whom a
	// catalog restricts should not be able to replace it.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	Catalogs []string `json:"catalogs,omitempty"`

	LoadBalancerPolicySpec `json:",inline"`
}

// Enforcement determines what happens to a Service that breaks a rule. Admission of policies rejects others than those
// below; if they are stored nevertheless, they count as EnforcementDeny.
type Enforcement string

// The enforcements of policies.
const (
	// EnforcementDeny denies the Service.
	EnforcementDeny Enforcement = "Deny"
	// EnforcementWarn admits the Service and shows a warning.
	EnforcementWarn Enforcement = "Warn"
	// EnforcementAudit admits the Service and only counts it.
	EnforcementAudit Enforcement = "Audit"
)

// Rule limits one annotation. It applies to the effective values: those of the annotation and of its forms for single
// ports or, if there are none, the default.
//
// +kubebuilder:validation:XValidation:rule="(!has(self.min) || type(self.min) != int || (int(self.min) >= -2147483648 && int(self.min) <= 2147483647)) && (!has(self.max) || type(self.max) != int || (int(self.max) >= -2147483648 && int(self.max) <= 2147483647))",message="min and max must be between -2147483648 and 2147483647"
type Rule struct {
	// Annotation is the key, such as service.beta.kubernetes.io/dlb-listener-maxqps. The rule also applies to its forms
	// for single ports.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Annotation string `json:"annotation"`

	// Min is the minimum value: an integer, or a duration such as 30s for keys that are durations.
	// +optional
	// +kubebuilder:validation:XIntOrString
	Min *intstr.IntOrString `json:"min,omitempty"`

	// Max is the maximum value: an integer, or a duration such as 10m for keys that are durations.
	// +optional
	// +kubebuilder:validation:XIntOrString
	Max *intstr.IntOrString `json:"max,omitempty"`

	// Allowed are the only allowed values. For keys that are lists, each element must be one of them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	Allowed []string `json:"allowed,omitempty"`

	// Pattern is a regular expression (RE2) that must match part of the value as written; use ^ and $ to match the
	// whole value.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Pattern string `json:"pattern,omitempty"`

	// Required requires every Service to have the annotation, either its own or from a policy's defaults.
	// +optional
	Required bool `json:"required,omitempty"`

	// Forbidden forbids the annotation.
	// +optional
	Forbidden bool `json:"forbidden,omitempty"`

	// Message tells authors of Services what to do instead, such as which team to ask. It is appended to the
	// requirement of the rule.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}
