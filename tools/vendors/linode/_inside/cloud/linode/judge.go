package linode

import (
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/linode/linode-cloud-controller-manager/cloud/linode/client"
	"github.com/linode/linode-cloud-controller-manager/cloud/linode/options"
)

// NewLoadBalancersForJudge returns the load balancers of the controller, with a VPC so that no annotation fails for lack
// of one.
func NewLoadBalancersForJudge(cloud client.Client, cluster kubernetes.Interface, vpc, subnet string) cloudprovider.LoadBalancer {
	options.Options.VPCNames, options.Options.SubnetNames = []string{vpc}, []string{subnet}
	return &loadbalancers{client: cloud, zone: "eu-central", kubeClient: cluster}
}
