// The judge of catalog digitalocean: the whole EnsureLoadBalancer of DigitalOcean's controller against a simulated API.
package main

import (
	"context"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/digitalocean/digitalocean-cloud-controller-manager/cloud-controller-manager/do"
	"quaymaster.dev/tools/vendors/judge"
)

func main() {
	cluster := &fake.Clientset{} // accepts everything
	balancers := do.NewLoadBalancersForJudge(&http.Client{Transport: judge.API(answer)}, cluster)
	// A node with addresses of both families, so that no load balancer fails for lack of one.
	nodes := []*corev1.Node{{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1"},
		Spec:       corev1.NodeSpec{ProviderID: "digitalocean://1"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeExternalIP, Address: "198.51.100.1"}, {Type: corev1.NodeExternalIP, Address: "2001:db8::1"},
		}},
	}}
	judge.Main(judge.Description{
		Vendor: "digitalocean",
		Module: "github.com/digitalocean/digitalocean-cloud-controller-manager",
		Covers: "EnsureLoadBalancer for a new load balancer, against a simulated API that accepts every request",
		NotCovered: []string{
			"which certificates, addresses, subnets and load balancers exist",
			"what the cloud's API refuses in a request that the controller sends",
			"the controller of the firewall, which needs its flags",
			"changes of a load balancer that exists",
		},
	}, judge.ServiceController(func(service *corev1.Service) judge.Verdict {
		cluster.ClearActions()
		_, err := balancers.EnsureLoadBalancer(context.Background(), "cluster", service, nodes)
		return judge.Refuse(err)
	}))
}
