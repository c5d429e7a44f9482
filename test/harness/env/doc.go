// Package env runs a real control plane on loopback for tests and for the demonstration: etcd, kube-apiserver with
// RBAC, optionally kube-controller-manager, and the project's programs with the rights that the chart grants them.
//
// The chart is the only source of webhook configurations, roles and CRDs; none is duplicated here.
//
// controller-runtime's envtest is not used because it leaves etcd and kube-apiserver behind when the test process is
// killed, does not report that one of them has ended, and cannot start again with an existing directory. The
// demonstration depends on all three.
package env
