// Package service reconciles Services with the load balancers of the cloud. It owns finalizer, record, status and
// conditions of the Services; the cloud is behind an interface.
//
// A Service is reconciled when it changes, when Enqueue reports that the cloud changed, and when the last call asked
// for another one. Each pass compares the whole Service with the whole load balancer, so that none depends on what an
// earlier one saw. Passes of one Service never run at the same time, and never wait for the cloud to finish its work.
package service
