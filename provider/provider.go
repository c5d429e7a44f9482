// Package provider implements the cloud provider interface of Kubernetes, which k8s.io/cloud-provider requires to run
// controllers. Those of Quaymaster need more of the cloud than the interface can express, and use the packages below
// this one instead.
package provider

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"quaymaster.dev/controllers/machine"
)

// Name is the provider's value of --cloud-provider.
const Name = "mycloud"

// Machines finds the machines of Nodes.
type Machines interface {
	// Ask asks the cloud. It returns nil without an error if the cloud does not know the machine.
	Ask(ctx context.Context, node *corev1.Node) (*machine.Machine, error)
}

// Provider implements cloudprovider.Interface and InstancesV2.
type Provider struct{ machines Machines }

var (
	_ cloudprovider.Interface   = (*Provider)(nil)
	_ cloudprovider.InstancesV2 = (*Provider)(nil)
)

// New returns a Provider, without a cloud if machines is nil.
func New(machines Machines) *Provider { return &Provider{machines} }

// Initialize starts nothing.
func (p *Provider) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// ProviderName returns the scheme of provider IDs.
func (p *Provider) ProviderName() string { return Name }

// HasClusterID returns true: the UID of the cluster identifies its objects.
func (p *Provider) HasClusterID() bool { return true }

// InstancesV2 returns the Provider itself, unless it has no cloud.
func (p *Provider) InstancesV2() (cloudprovider.InstancesV2, bool) { return p, p.machines != nil }

// Instances is not supported: InstancesV2 replaces it.
func (p *Provider) Instances() (cloudprovider.Instances, bool) { return nil, false }

// Zones is not supported: InstancesV2 replaces it.
func (p *Provider) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters is not supported: nothing uses it.
func (p *Provider) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// LoadBalancer is not supported: it could not return what has to be recorded in a Service; see service.Balancers.
func (p *Provider) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }

// Routes is not supported: it would need one request for each route; see route.Table.
func (p *Provider) Routes() (cloudprovider.Routes, bool) { return nil, false }

// InstanceExists returns false only if the cloud reports the Node's machine as deleted: callers delete the
// Node at once. That the cloud does not know the machine is an error.
func (p *Provider) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	m, err := p.machine(ctx, node)
	return err == nil && m.State != machine.Deleted, err
}

// InstanceShutdown returns true once the Node's machine is stopped.
func (p *Provider) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	m, err := p.machine(ctx, node)
	return err == nil && m.State == machine.Stopped, err
}

// InstanceMetadata returns what a Node is initialized with.
func (p *Provider) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	m, err := p.machine(ctx, node)
	switch {
	case err != nil:
		return nil, err
	case m.State == machine.Deleted:
		return nil, fmt.Errorf("node %s: the machine is deleted: %w", node.Name, cloudprovider.InstanceNotFound)
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID: m.ProviderID, InstanceType: m.Type, NodeAddresses: m.Addresses, Zone: m.Zone, Region: m.Region,
	}, nil
}

func (p *Provider) machine(ctx context.Context, node *corev1.Node) (*machine.Machine, error) {
	m, err := p.machines.Ask(ctx, node)
	if err == nil && m == nil {
		err = fmt.Errorf("node %s: the cloud has neither its machine nor a record of the deletion", node.Name)
	}
	return m, err
}
