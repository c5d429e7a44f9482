// The judge of catalog oci: the whole EnsureLoadBalancer of Oracle's controller against simulated APIs.
package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/oracle/oci-cloud-controller-manager/pkg/cloudprovider/providers/oci"
	"github.com/oracle/oci-cloud-controller-manager/pkg/cloudprovider/providers/oci/config"
	"quaymaster.dev/tools/vendors/judge"
)

func main() {
	cluster := kubernetes()
	cloud := &cloud{}
	balancers := oci.NewLoadBalancersForJudge(&config.Config{
		CompartmentID: "ocid1.compartment.oc1..cluster",
		VCNID:         "ocid1.vcn.oc1..cluster",
		LoadBalancer:  &config.LoadBalancerConfig{Subnet1: "ocid1.subnet.oc1..default"},
	}, cloud, cluster, accounts{})
	// A node with addresses of both families, so that no load balancer fails for lack of one.
	nodes := []*corev1.Node{{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1"},
		Spec:       corev1.NodeSpec{ProviderID: "oci://ocid1.instance.oc1..node"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "10.0.0.2"}, {Type: corev1.NodeInternalIP, Address: "fd00::2"},
		}},
	}}
	judge.Main(judge.Description{
		Vendor: "oci",
		Module: "github.com/oracle/oci-cloud-controller-manager",
		Covers: "EnsureLoadBalancer for a new load balancer or network load balancer with the default cloud config, against " +
			"simulated APIs of the cloud and the cluster that accept every request",
		NotCovered: []string{
			"which subnets, security groups, addresses, Secrets and ServiceAccounts exist: all that are named do, if their names are possible",
			"what the cloud's API refuses in a request that the controller sends",
			"keys that only the controller of Oracle's managed Kubernetes reads, whose source is not public",
			"changes of a load balancer that exists",
		},
	}, judge.ServiceController(func(service *corev1.Service) judge.Verdict {
		cluster.ClearActions()
		_, err := balancers.EnsureLoadBalancer(context.Background(), "cluster", service, nodes)
		return judge.Refuse(err)
	}))
}
