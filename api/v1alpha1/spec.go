package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// LoadBalancerPolicySpec is what a policy says about Services of type LoadBalancer.
type LoadBalancerPolicySpec struct {
	// Defaults are annotations, by key, that a Service gets when it is created, or becomes a load balancer, without them.
	// One that breaks a rule is never written, nor is one that would make the Service invalid. The Service's annotation
	// quaymaster.dev/defaulted tells which policy gave which key.
	// +optional
	// +mapType=granular
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.size() <= 317 && self[key].size() <= 1024)",message="must have keys of at most 317 and values of at most 1024 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.startsWith('quaymaster.dev/') && !key.startsWith('kubectl.kubernetes.io/'))",message="must not have keys of quaymaster.dev/ and kubectl.kubernetes.io/, which others write"
	Defaults map[string]string `json:"defaults,omitempty"`

	// Rules limit what Services may say. The rules of all policies of a namespace apply.
	// +optional
	// +listType=map
	// +listMapKey=annotation
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Rules []Rule `json:"rules,omitempty"`

	// Enforcement is what happens to a Service that breaks a rule: Deny refuses it, Warn shows a warning to its author, Audit
	// only counts it in the policy's status and in metrics. What a Service did wrong before an update never refuses that update.
	// +optional
	// +default="Deny"
	Enforcement Enforcement `json:"enforcement,omitempty"`
}

// ClusterLoadBalancerPolicySpec is a policy for several namespaces.
type ClusterLoadBalancerPolicySpec struct {
	// NamespaceSelector chooses the namespaces by their labels; empty is all of them.
	// +optional
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// Priority decides which default wins where several cluster policies have one for the same key: that of the highest
	// priority, among equals that of the first by name. A LoadBalancerPolicy of the namespace wins over all of them.
	// +optional
	// +default=0
	Priority int32 `json:"priority"`

	// Catalogs are those by which Services of the namespaces are judged at admission, in place of the ones that the webhooks were
	// installed with: mycloud, or the names of other clouds. Of several policies the one decides whose defaults win. It is not
	// among what a LoadBalancerPolicy has, for who is limited should not lift the limit.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	Catalogs []string `json:"catalogs,omitempty"`

	LoadBalancerPolicySpec `json:",inline"`
}

// Enforcement is what happens to a Service that breaks a rule.
//
// +kubebuilder:validation:Enum=Deny;Warn;Audit
type Enforcement string

// The enforcements of policies.
const (
	// EnforcementDeny refuses the Service.
	EnforcementDeny Enforcement = "Deny"
	// EnforcementWarn admits the Service and shows a warning.
	EnforcementWarn Enforcement = "Warn"
	// EnforcementAudit admits the Service and counts it.
	EnforcementAudit Enforcement = "Audit"
)

// Rule limits one annotation. It judges the value that holds: the annotation's and that of its forms for single ports or, where
// there is none, the default.
//
// +kubebuilder:validation:XValidation:rule="has(self.min) || has(self.max) || has(self.allowed) || has(self.pattern) || (has(self.required) && self.required) || (has(self.forbidden) && self.forbidden)",message="must have at least one of min, max, allowed, pattern, required and forbidden"
// +kubebuilder:validation:XValidation:rule="!(has(self.forbidden) && self.forbidden) || !(has(self.min) || has(self.max) || has(self.allowed) || has(self.pattern) || (has(self.required) && self.required))",message="must have nothing beside forbidden: there is no value to judge"
// +kubebuilder:validation:XValidation:rule="!has(self.min) || !has(self.max) || (type(self.min) == int) == (type(self.max) == int)",message="must have min and max of one type: two integers or two durations"
// +kubebuilder:validation:XValidation:rule="!has(self.min) || !has(self.max) || type(self.min) != int || type(self.max) != int || int(self.min) <= int(self.max)",message="must have min not above max"
// +kubebuilder:validation:XValidation:rule="(!has(self.min) || type(self.min) != int || (int(self.min) >= -2147483648 && int(self.min) <= 2147483647)) && (!has(self.max) || type(self.max) != int || (int(self.max) >= -2147483648 && int(self.max) <= 2147483647))",message="must have min and max from -2147483648 to 2147483647"
type Rule struct {
	// Annotation is the key, such as service.beta.kubernetes.io/dlb-listener-maxqps. The rule holds for its forms for single
	// ports, too.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Annotation string `json:"annotation"`

	// Min is the least value: an integer, or a duration such as 30s for keys that are durations.
	// +optional
	// +kubebuilder:validation:XIntOrString
	Min *intstr.IntOrString `json:"min,omitempty"`

	// Max is the greatest value: an integer, or a duration such as 10m for keys that are durations.
	// +optional
	// +kubebuilder:validation:XIntOrString
	Max *intstr.IntOrString `json:"max,omitempty"`

	// Allowed are the only values that may be used. Of a list, each element must be among them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	Allowed []string `json:"allowed,omitempty"`

	// Pattern is a regular expression (RE2) that must match somewhere in the value as written; ^ and $ bind it to the ends.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Pattern string `json:"pattern,omitempty"`

	// Required makes every Service have the annotation, its own or from a policy's defaults.
	// +optional
	Required bool `json:"required,omitempty"`

	// Forbidden lets no Service have the annotation.
	// +optional
	Forbidden bool `json:"forbidden,omitempty"`

	// Message tells authors of Services what to do instead, such as whom to ask. It follows what the rule demands.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}
