package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/cloud-provider-azure/pkg/azclient"
	"sigs.k8s.io/cloud-provider-azure/pkg/consts"
	"sigs.k8s.io/cloud-provider-azure/pkg/provider"
	"sigs.k8s.io/cloud-provider-azure/pkg/provider/config"
)

const (
	cluster      = "cluster"
	group        = "cluster-group"
	location     = "westeurope"
	subscription = "subscription"
)

// controller is the controller's code and the cloud that it talks to.
type controller struct {
	*provider.Cloud
	*cloud
}

// start returns the controller with defaults, and without caches, so that it sees only what belongs to the Service at hand.
// Several load balancers require a pool of addresses rather than of interfaces.
func start(several bool) (*controller, error) {
	c := &controller{cloud: &cloud{}}
	kubernetes := fake.NewClientset()
	c.Cloud = &provider.Cloud{
		ComputeClientFactory: clients{cloud: c.cloud}, NetworkClientFactory: clients{cloud: c.cloud},
		AuthProvider: &azclient.AuthProvider{}, KubeClient: kubernetes,
	}
	configuration := &config.Config{
		ResourceGroup: group, Location: location, VnetName: "network", SubnetName: "nodes", SecurityGroupName: "rules",
		VMType: consts.VMTypeStandard,
	}
	configuration.SubscriptionID, configuration.DisableAPICallCache = subscription, true
	if several {
		configuration.LoadBalancerBackendPoolConfigurationType = consts.LoadBalancerBackendPoolConfigurationTypeNodeIP
		configuration.MultipleStandardLoadBalancerConfigurations = configurations(nil)
	}
	if err := c.InitializeCloudFromConfig(context.Background(), configuration, false, false); err != nil {
		return nil, fmt.Errorf("start the controller: %w", err)
	}
	c.Initialize(nil, nil)
	c.SetInformers(informers.NewSharedInformerFactory(kubernetes, 0))
	return c, nil
}

// serve prepares the cloud for one Service, with the load balancers that it names.
func (c *controller) serve(service *corev1.Service, names []string) {
	c.cloud.serve(service)
	if len(names) > 0 {
		c.MultipleStandardLoadBalancerConfigurations = configurations(names)
	}
}

// configurations are the load balancers of a cluster that has several. That with the cluster's name is mandatory.
func configurations(names []string) []config.MultipleStandardLoadBalancerConfiguration {
	var all []config.MultipleStandardLoadBalancerConfiguration
	seen := map[string]bool{"": true}
	for _, name := range append(names, cluster) {
		if seen[name] {
			continue
		}
		seen[name] = true
		one := config.MultipleStandardLoadBalancerConfiguration{Name: name}
		one.PrimaryVMSet = "nodes-" + name
		all = append(all, one)
	}
	return all
}
