// The judge of catalog hcloud: the whole EnsureLoadBalancer of Hetzner's controller against a simulated API.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/hetznercloud/hcloud-cloud-controller-manager/hcloud"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	cloudprovider "k8s.io/cloud-provider"

	"quaymaster.dev/tools/vendors/judge"
)

// environment configures the controller: with a network and a network zone, so that no annotation fails for lack of them.
var environment = map[string]string{
	"HCLOUD_TOKEN":                          "0000000000000000000000000000000000000000000000000000000000000000",
	"HCLOUD_ENDPOINT":                       "http://hcloud.invalid/v1",
	"HCLOUD_NETWORK":                        "7",
	"HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "true",
	"HCLOUD_NETWORK_ROUTES_ENABLED":         "false",
	"HCLOUD_METRICS_ENABLED":                "false",
	"HCLOUD_LOAD_BALANCERS_NETWORK_ZONE":    "eu-central",
}

func main() {
	var balancers cloudprovider.LoadBalancer
	cloud, cluster := &api{}, &fake.Clientset{}
	nodes := []*corev1.Node{{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: corev1.NodeSpec{ProviderID: "hcloud://1"},
	}}
	judge.Main(judge.Description{
		Vendor: "hcloud",
		Module: "github.com/hetznercloud/hcloud-cloud-controller-manager",
		Covers: "EnsureLoadBalancer for a new load balancer, against a simulated API that accepts every request",
		NotCovered: []string{
			"which names, types, locations, certificates, addresses and subnets exist",
			"what the cloud's API refuses in a request that the controller sends",
			"changes of a load balancer that exists",
		},
	}, judge.ServiceController(func(service *corev1.Service) judge.Verdict {
		if balancers == nil {
			var err error
			if balancers, err = start(judge.API(cloud.answer), cluster); err != nil {
				log.Fatal(err)
			}
		}
		*cloud = api{}
		cluster.ClearActions()
		_, err := balancers.EnsureLoadBalancer(context.Background(), "cluster", service, nodes)
		return judge.Refuse(err)
	}))
}

// start returns the controller's code, whose every HTTP request the simulated API answers.
func start(transport http.RoundTripper, cluster kubernetes.Interface) (cloudprovider.LoadBalancer, error) {
	http.DefaultTransport = transport
	for name, value := range environment {
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	cloud, err := hcloud.NewCloud("10.244.0.0/16", nil)
	if err != nil {
		return nil, fmt.Errorf("start the controller: %w", err)
	}
	cloud.Initialize(builder{cluster: cluster}, nil)
	balancers, _ := cloud.LoadBalancer()
	return balancers, nil
}

// builder returns the client of a cluster that accepts everything. The controller uses it only for Events.
type builder struct {
	cloudprovider.ControllerClientBuilder
	cluster kubernetes.Interface
}

// Client returns the client.
func (b builder) Client(string) (kubernetes.Interface, error) { return b.cluster, nil }
