// Package condition names the conditions of Services that the controllers write and quayctl reads. The names are stored
// in clusters: they must not change.
package condition

// Prefix is the prefix of all types that are ours.
const Prefix = "quaymaster.dev/"

// The types of the conditions of Services.
const (
	// Configured is true if the cloud has what the Service asks for.
	Configured = Prefix + "LoadBalancerConfigured"
	// Progressing is true while the cloud works on what the Service asks for, or the controllers try again.
	Progressing = Prefix + "LoadBalancerProgressing"
	// Degraded is true if the data plane does not serve as it should.
	Degraded = Prefix + "LoadBalancerDegraded"
)

// Reasons of the condition Configured. Others are only used by the controllers.
const (
	// ReasonInvalid: the Service's annotations or spec are invalid; the load balancer is kept as last configured.
	ReasonInvalid = "InvalidConfiguration"
	// ReasonDrifted: the load balancer was changed in the cloud, which is only reported.
	ReasonDrifted = "Drifted"
	// ReasonPending: the cloud is still working on what the Service asks for.
	ReasonPending = "Pending"
	// ReasonProtected: the Service is being deleted, but its load balancer has deletion protection.
	ReasonProtected = "DeletionProtected"
)

// EventFailed is the reason of the Event about an attempt that failed, which is that of the controller of
// k8s.io/cloud-provider.
const EventFailed = "SyncLoadBalancerFailed"
