// Package policy admits LoadBalancerPolicies and ClusterLoadBalancerPolicies: it denies those that cannot be applied as
// written, by themselves or in combination with the other policies of the cluster.
package policy
