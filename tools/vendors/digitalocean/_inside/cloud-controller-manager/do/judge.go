package do

import (
	"net/http"

	"github.com/digitalocean/godo"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"
)

// NewLoadBalancersForJudge returns the load balancers of the controller, whose requests to the cloud the client sends. It
// runs with DEFAULT_LB_TYPE=REGIONAL, so that all keys are read unless the Service itself has the type REGIONAL_NETWORK.
func NewLoadBalancersForJudge(client *http.Client, cluster kubernetes.Interface) cloudprovider.LoadBalancer {
	resources := newResources("cluster", "", publicAccessFirewall{}, godo.NewClient(client))
	resources.kclient = cluster
	return newLoadBalancers(resources, "fra1", godo.LoadBalancerTypeRegional)
}
