// Package policystore keeps the cluster's policies, compiled, and the labels of its namespaces, so that admission and the
// controllers decide without asking the API server. It serves a cluster without the CRDs of policies, too: there are none then.
package policystore
