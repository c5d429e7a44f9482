// Package policy decides what LoadBalancerPolicies and ClusterLoadBalancerPolicies mean for a Service: which of them apply,
// which defaults it gets and which rules it breaks. It decides the same for admission, for the controllers and for the status
// of policies.
package policy
