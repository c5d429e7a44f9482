package app

import (
	cloudprovider "k8s.io/cloud-provider"

	"quaymaster.dev/provider"
)

// noCloud is a provider that offers nothing.
type noCloud struct{}

var _ cloudprovider.Interface = noCloud{}

// Initialize has nothing to start.
func (noCloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// LoadBalancer is not offered.
func (noCloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }

// Instances is not offered.
func (noCloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

// InstancesV2 is not offered.
func (noCloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return nil, false }

// Zones is not offered.
func (noCloud) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters is not offered.
func (noCloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes is not offered.
func (noCloud) Routes() (cloudprovider.Routes, bool) { return nil, false }

// ProviderName is ours all the same.
func (noCloud) ProviderName() string { return provider.Name }

// HasClusterID is true: nothing in any cloud is tagged.
func (noCloud) HasClusterID() bool { return true }
