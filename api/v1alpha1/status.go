package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The conditions of policies.
const (
	// ConditionAccepted tells whether every part of the policy can be applied. What cannot be is left out; the rest applies.
	ConditionAccepted = "Accepted"
	// ConditionCompliant tells whether every Service that the policy applies to obeys its rules.
	ConditionCompliant = "Compliant"
)

// The reasons of conditions.
const (
	// ReasonAccepted is of ConditionAccepted when true.
	ReasonAccepted = "Accepted"
	// ReasonInvalid is of ConditionAccepted when false; the message names every part that is left out.
	ReasonInvalid = "Invalid"
	// ReasonCompliant is of ConditionCompliant when true.
	ReasonCompliant = "Compliant"
	// ReasonViolations is of ConditionCompliant when false.
	ReasonViolations = "Violations"
)

// MaxViolations is how many Services a status lists.
const MaxViolations = 10

// PolicyStatus is what the controllers found out about a policy and the Services that it applies to.
type PolicyStatus struct {
	// ObservedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Accepted and Compliant.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Services is how many Services of type LoadBalancer the policy applies to.
	// +optional
	Services int64 `json:"services"`

	// Violating is how many of them break a rule of the policy.
	// +optional
	Violating int64 `json:"violating"`

	// MaxQPS is the sum of the limits of all their listeners: requests per second for http and https, new connections or flows
	// per second for others. It is observed, not limited.
	// +optional
	MaxQPS int64 `json:"maxQPS"`

	// Violations are the first of the Services that break a rule, by namespace and name, with one problem each.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Violations []Violation `json:"violations,omitempty"`
}

// Violation is a Service that breaks a rule.
type Violation struct {
	// Namespace of the Service.
	// +required
	Namespace string `json:"namespace"`
	// Name of the Service.
	// +required
	Name string `json:"name"`
	// Field is the path of what breaks the rule, such as metadata.annotations[service.beta.kubernetes.io/dlb-listener-maxqps].
	// +required
	Field string `json:"field"`
	// Value is what stands there; empty where something is missing.
	// +optional
	Value string `json:"value,omitempty"`
	// Message says what must hold.
	// +required
	Message string `json:"message"`
}
