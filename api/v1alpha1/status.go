package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The conditions of policies.
const (
	// ConditionAccepted is true if every part of the policy can be applied. A rule with an invalid part refuses every
	// value of its annotation, and an invalid default is ignored; the rest applies.
	ConditionAccepted = "Accepted"
	// ConditionCompliant is true if every Service that the policy applies to complies with its rules.
	ConditionCompliant = "Compliant"
)

// The reasons of conditions.
const (
	// ReasonAccepted is the reason of ConditionAccepted if true.
	ReasonAccepted = "Accepted"
	// ReasonInvalid is the reason of ConditionAccepted if false; the message names every part that is invalid.
	ReasonInvalid = "Invalid"
	// ReasonTooMany is the reason of ConditionAccepted if a namespace has so many policies that this one does not apply
	// to it.
	ReasonTooMany = "TooManyPolicies"
	// ReasonTooLarge is the reason of ConditionAccepted if the policies of a namespace are so large that this one is
	// inactive there: it refuses every Service of type LoadBalancer.
	ReasonTooLarge = "TooLarge"
	// ReasonCompliant is the reason of ConditionCompliant if true.
	ReasonCompliant = "Compliant"
	// ReasonViolations is the reason of ConditionCompliant if false.
	ReasonViolations = "Violations"
)

// MaxViolations is the maximum number of Services that a status lists.
const MaxViolations = 10

// PolicyStatus is the observed state of a policy and of the Services that it applies to.
type PolicyStatus struct {
	// ObservedGeneration is the generation of the spec that the status refers to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Accepted and Compliant.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Services is the number of Services of type LoadBalancer that the policy applies to.
	// +optional
	Services int64 `json:"services"`

	// Violating is the number of those Services that break a rule of the policy.
	// +optional
	Violating int64 `json:"violating"`

	// MaxQPS is the sum of the limits of all listeners of those Services: requests per second for http and https, new
	// connections or flows per second for others. It is only observed, not limited.
	// +optional
	MaxQPS int64 `json:"maxQPS"`

	// Violations are the first Services that break a rule, by namespace and name, with one problem each.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Violations []Violation `json:"violations,omitempty"`
}

// Violation is a Service that breaks a rule.
type Violation struct {
	// Namespace is the namespace of the Service.
	// +required
	Namespace string `json:"namespace"`
	// Name is the name of the Service.
	// +required
	Name string `json:"name"`
	// Field is the path of the field that breaks the rule, such as
	// metadata.annotations[service.beta.kubernetes.io/dlb-listener-maxqps].
	// +required
	Field string `json:"field"`
	// Value is the value of the field; empty if it is missing.
	// +optional
	Value string `json:"value,omitempty"`
	// Message describes the requirement.
	// +required
	Message string `json:"message"`
}
