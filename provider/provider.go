// Package provider is mycloud as Kubernetes' cloud provider: one file a capability.
package provider

import (
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"

	"quaymaster.dev/provider/cloudapi"
	"quaymaster.dev/provider/ownership"
)

// Name is what --cloud-provider calls this provider.
const Name = "mycloud"

// Options are what a Provider depends on.
type Options struct {
	// Cloud is the client of the cloud's API.
	Cloud *cloudapi.Client
	// Cluster tells whose objects are ours.
	Cluster *ownership.Cluster
	// ClusterID is the cluster's name in the cloud.
	ClusterID string
	// APIServer is the address of the cluster's API server.
	APIServer string
	// RouteTableID takes the routes to the Nodes' pods; without it routes are not supported.
	RouteTableID string
	// LoadBalancer makes load balancers.
	LoadBalancer cloudprovider.LoadBalancer
}

// Provider is a cloudprovider.Interface.
type Provider struct {
	cloud        *cloudapi.Client
	clusterID    string
	apiServer    string
	loadBalancer cloudprovider.LoadBalancer
	routes       *routes
}

var (
	_ cloudprovider.Interface    = (*Provider)(nil)
	_ cloudprovider.InformerUser = (*Provider)(nil)
)

// New makes a Provider; it does no I/O.
func New(o Options) *Provider {
	return &Provider{
		cloud: o.Cloud, clusterID: o.ClusterID, apiServer: o.APIServer, loadBalancer: o.LoadBalancer,
		routes: &routes{cloud: o.Cloud, cluster: o.Cluster, tableID: o.RouteTableID, instances: &instancesV2{o.Cloud}},
	}
}

// Initialize has nothing to do: a Provider has no goroutines, and its clients come with its Options.
func (p *Provider) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// SetInformers takes the Nodes, by which routes are told apart. It is called once, before anything else is.
func (p *Provider) SetInformers(factory informers.SharedInformerFactory) {
	nodes := factory.Core().V1().Nodes()
	p.routes.setNodes(nodes.Lister(), nodes.Informer().HasSynced)
}

// ProviderName is the scheme of provider IDs.
func (p *Provider) ProviderName() string { return Name }

// HasClusterID is true: there is no Provider without one.
func (p *Provider) HasClusterID() bool { return true }

// LoadBalancer gives the load balancers.
func (p *Provider) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return p.loadBalancer, p.loadBalancer != nil
}

// InstancesV2 gives the machines of Nodes.
func (p *Provider) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return &instancesV2{p.cloud}, true
}

// Instances gives the machines of Nodes to callers of the older interface.
func (p *Provider) Instances() (cloudprovider.Instances, bool) {
	return &instances{&instancesV2{p.cloud}}, true
}

// Zones gives the zones of Nodes to callers of the older interface.
func (p *Provider) Zones() (cloudprovider.Zones, bool) { return &zones{&instancesV2{p.cloud}}, true }

// Clusters gives the one cluster that the provider serves.
func (p *Provider) Clusters() (cloudprovider.Clusters, bool) {
	return &clusters{id: p.clusterID, apiServer: p.apiServer}, true
}

// Routes gives the routes to Nodes' pods, if there is a route table for them.
func (p *Provider) Routes() (cloudprovider.Routes, bool) { return p.routes, p.routes.tableID != "" }
