// Package provider implements the cloud provider interface of Kubernetes for mycloud, with one file per capability. Nodes,
// load balancers and routes are served to the stock controllers of --stock-controllers, which know neither budgets nor
// brakes; our controllers use the packages below this one.
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

// Name is the provider's value of --cloud-provider.
const Name = "mycloud"

// Options holds the dependencies of a Provider.
type Options struct {
	// Cloud is the client of the cloud's API.
	Cloud *cloudapi.Client
	// Cluster identifies the objects of this cluster.
	Cluster *ownership.Cluster
	// ClusterID is the cluster's name in the cloud.
	ClusterID string
	// APIServer is the address of the cluster's API server.
	APIServer string
	// RouteTableID is the table for the routes to the Nodes' pods; without it, routes are not supported.
	RouteTableID string
	// LoadBalancer manages load balancers.
	LoadBalancer cloudprovider.LoadBalancer
	// Recorder emits Events about Nodes; if nil, there are none.
	Recorder record.EventRecorder
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

// Provider implements cloudprovider.Interface.
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

// New returns a Provider. It does no I/O.
func New(o Options) *Provider {
	instances := &instancesV2{cloud: o.Cloud, guard: newGuard(o.Recorder, o.Clock)}
	return &Provider{
		cloud: o.Cloud, clusterID: o.ClusterID, apiServer: o.APIServer, instances: instances, loadBalancer: o.LoadBalancer,
		routes: &routes{cloud: o.Cloud, cluster: o.Cluster, tableID: o.RouteTableID, instances: instances},
	}
}

// Initialize does nothing: a Provider has no goroutines, and its clients are in its Options.
func (p *Provider) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// SetInformers sets the lister of Nodes, which routes need to find their Nodes and the guard to forget deleted ones. It
// is called once, before any other method.
func (p *Provider) SetInformers(factory informers.SharedInformerFactory) {
	nodes := factory.Core().V1().Nodes()
	p.routes.setNodes(nodes.Lister(), nodes.Informer().HasSynced)
	p.instances.guard.setNodes(nodes.Lister())
}

// ProviderName returns the scheme of provider IDs.
func (p *Provider) ProviderName() string { return Name }

// HasClusterID returns true: every Provider has one.
func (p *Provider) HasClusterID() bool { return true }

// LoadBalancer returns the capability that manages load balancers.
func (p *Provider) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return p.loadBalancer, p.loadBalancer != nil
}

// InstancesV2 returns the capability that looks up the machines of Nodes.
func (p *Provider) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return p.instances, true
}

// Instances returns InstancesV2 for callers of the older interface.
func (p *Provider) Instances() (cloudprovider.Instances, bool) {
	return &instances{p.instances}, true
}

// Zones returns the capability that looks up the zones of Nodes, for callers of the older interface.
func (p *Provider) Zones() (cloudprovider.Zones, bool) { return &zones{p.instances}, true }

// Metrics returns the collector that counts Nodes kept without a machine.
func (p *Provider) Metrics() prometheus.Collector { return p.instances.guard }

// Clusters returns the only cluster of the provider.
func (p *Provider) Clusters() (cloudprovider.Clusters, bool) {
	return &clusters{id: p.clusterID, apiServer: p.apiServer}, true
}

// Routes returns the capability that manages the routes to Nodes' pods, if there is a route table for them.
func (p *Provider) Routes() (cloudprovider.Routes, bool) { return p.routes, p.routes.tableID != "" }
