// Package provider is mycloud as Kubernetes' cloud provider: one file a capability.
package provider

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/clock"

	"quaymaster.dev/internal/cloudapi"
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
	// Recorder takes Events about Nodes; nil is nobody.
	Recorder record.EventRecorder
	// Clock is the real one if nil.
	Clock clock.PassiveClock
}

// Provider is a cloudprovider.Interface.
type Provider struct {
	cloud        *cloudapi.Client
	clusterID    string
	instances    *instancesV2
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
	instances := &instancesV2{cloud: o.Cloud, guard: newGuard(o.Recorder, o.Clock)}
	return &Provider{
		cloud: o.Cloud, clusterID: o.ClusterID, apiServer: o.APIServer, instances: instances, loadBalancer: o.LoadBalancer,
		routes: &routes{cloud: o.Cloud, cluster: o.Cluster, tableID: o.RouteTableID, instances: instances},
	}
}

// Initialize has nothing to do: a Provider has no goroutines, and its clients come with its Options.
func (p *Provider) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// SetInformers takes the Nodes, by which routes are told apart and Nodes that went away are forgotten. It is called once, before
// anything else is.
func (p *Provider) SetInformers(factory informers.SharedInformerFactory) {
	nodes := factory.Core().V1().Nodes()
	p.routes.setNodes(nodes.Lister(), nodes.Informer().HasSynced)
	p.instances.guard.setNodes(nodes.Lister())
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
	return p.instances, true
}

// Instances gives the machines of Nodes to callers of the older interface.
func (p *Provider) Instances() (cloudprovider.Instances, bool) {
	return &instances{p.instances}, true
}

// Zones gives the zones of Nodes to callers of the older interface.
func (p *Provider) Zones() (cloudprovider.Zones, bool) { return &zones{p.instances}, true }

// Metrics tell which Nodes stay without a machine.
func (p *Provider) Metrics() prometheus.Collector { return p.instances.guard }

// Clusters gives the one cluster that the provider serves.
func (p *Provider) Clusters() (cloudprovider.Clusters, bool) {
	return &clusters{id: p.clusterID, apiServer: p.apiServer}, true
}

// Routes gives the routes to Nodes' pods, if there is a route table for them.
func (p *Provider) Routes() (cloudprovider.Routes, bool) { return p.routes, p.routes.tableID != "" }
