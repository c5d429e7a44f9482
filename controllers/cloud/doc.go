// Package cloud composes the cloud-controller-manager: flags, configuration and controllers of the k8s.io/cloud-provider
// app, and controllers of our own. Start and end differ from the app's: probes are answered before the API server answers,
// and the lease is released when nothing can be written any more.
package cloud
