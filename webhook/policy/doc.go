// Package policy adapts LoadBalancerPolicies and ClusterLoadBalancerPolicies to admission: it refuses those that cannot be
// applied as they are written, alone or beside the other policies of the cluster.
package policy
