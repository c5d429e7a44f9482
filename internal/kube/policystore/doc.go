// Package policystore caches the cluster's compiled policies and the labels of its namespaces, so that admission and
// the controllers do not query the API server. It also works in a cluster without the CRDs of policies, which then has
// no policies.
package policystore
