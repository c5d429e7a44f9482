// Package env runs a real control plane on loopback for tests and for the demonstration: etcd, kube-apiserver with
// RBAC, on request kube-controller-manager, and the project's own programs with the rights the chart gives them.
//
// The chart is the only source of webhook configurations, roles and CRDs; nothing here types one a second time.
package env
