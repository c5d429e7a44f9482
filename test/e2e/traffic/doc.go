// Package traffic sends the traffic of Kubernetes' own LoadBalancer specs through two edges. It needs the scripts of a
// real cluster on this machine, in REALCLUSTER, and root: run it by make e2e-traffic.
package traffic
