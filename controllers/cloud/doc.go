// Package cloud composes the cloud-controller-manager: the k8s.io/cloud-provider app, which owns flags, lease, health,
// metrics and lifetime, with its node, node-lifecycle, service and route controllers and with ours.
package cloud
