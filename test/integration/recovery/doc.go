// Package recovery tests docs/operations/disaster-recovery.md: each row of its table happens to real programs, etcd,
// kube-apiserver, mycloud and the controllers, and what the row promises is observed.
package recovery
