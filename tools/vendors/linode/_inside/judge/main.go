// The judge of catalog linode: the whole EnsureLoadBalancer of Linode's controller against a simulated API.
package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linode/linode-cloud-controller-manager/cloud/annotations"
	"github.com/linode/linode-cloud-controller-manager/cloud/linode"
	"quaymaster.dev/tools/vendors/judge"
)

func main() {
	cloud := &cloud{}
	cluster := kubernetes()
	balancers := linode.NewLoadBalancersForJudge(cloud, cluster, defaultVPC, defaultSubnet)
	nodes := []*corev1.Node{{
		ObjectMeta: metav1.ObjectMeta{
			Name: "node-1", Annotations: map[string]string{annotations.AnnLinodeNodePublicIPv6: "2001:db8::1/128"},
		},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.168.128.1"}}},
	}}
	judge.Main(judge.Description{
		Vendor: "linode",
		Module: "github.com/linode/linode-cloud-controller-manager",
		Covers: "EnsureLoadBalancer for a new NodeBalancer, or for an existing one that an annotation names, in a cluster with a VPC, " +
			"against a simulated API that accepts every request",
		NotCovered: []string{
			"which NodeBalancers, firewalls, VPCs, subnets, addresses and TLS Secrets exist: all that are named do",
			"what the cloud's API refuses in a request that the controller sends",
			"load balancers of Cilium's BGP, which a flag enables",
		},
	}, judge.ServiceController(func(service *corev1.Service) judge.Verdict {
		cloud.service = service
		cluster.ClearActions()
		_, err := balancers.EnsureLoadBalancer(context.Background(), "cluster", service, nodes)
		return judge.Refuse(err)
	}))
}
