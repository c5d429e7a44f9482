// The judge of catalog openstack: the whole EnsureLoadBalancer of the OpenStack cloud provider against simulated APIs.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider-openstack/pkg/openstack"
	"k8s.io/klog/v2"
	"quaymaster.dev/tools/vendors/judge"
)

// configuration is a cloud config with defaults only, apart from the login.
const configuration = `[Global]
auth-url=%s/v3
username=judge
password=judge
tenant-name=judge
domain-name=Default
region=RegionOne
`

// found is what the controller says about subnets that it only finds in the cloud.
const found = "no subnet matching"

func main() {
	var c *controller
	nodes := []*corev1.Node{{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1"},
		Spec:       corev1.NodeSpec{ProviderID: "openstack:///f81d4fae-7dec-41d0-a765-00a0c91e6bf6"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: nodeIPv4}, {Type: corev1.NodeInternalIP, Address: nodeIPv6},
		}},
	}}
	judge.Main(judge.Description{
		Vendor: "openstack",
		Module: "k8s.io/cloud-provider-openstack",
		Covers: "EnsureLoadBalancer for a new load balancer or an existing one named by load-balancer-id, with provider amphora and " +
			"the default cloud config, against simulated APIs of Keystone, Octavia, Neutron and Barbican that accept every request",
		NotCovered: []string{
			"which classes, networks, subnets, flavors, zones and secrets exist: all that are named do",
			"what Octavia and Neutron refuse in a request that the controller sends",
			"changes of a load balancer that exists",
		},
	}, judge.ServiceController(func(service *corev1.Service) judge.Verdict {
		if c == nil {
			var err error
			if c, err = start(); err != nil {
				log.Fatal(err)
			}
		}
		c.serve(service)
		_, err := c.EnsureLoadBalancer(context.Background(), "cluster", service, nodes)
		if err != nil && strings.Contains(err.Error(), found) {
			return judge.Accept()
		}
		return judge.Refuse(err)
	}))
}

// controller is the controller's code and the cloud that it talks to.
type controller struct {
	cloudprovider.LoadBalancer
	*cloud
	cluster *fake.Clientset
	classes map[string]*openstack.LBClass
}

// serve prepares the cloud for one Service.
func (c *controller) serve(service *corev1.Service) {
	*c.cloud = cloud{service: service, network: external}
	c.cluster.ClearActions()
	clear(c.classes)
	if class := service.Annotations[openstack.ServiceAnnotationLoadBalancerClass]; class != "" {
		c.classes[class] = &openstack.LBClass{}
	}
	if network := service.Annotations[openstack.ServiceAnnotationLoadBalancerFloatingNetworkID]; network != "" {
		c.network = network
	}
}

func start() (*controller, error) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	c := &controller{cloud: &cloud{}, cluster: &fake.Clientset{}, classes: map[string]*openstack.LBClass{}}
	server := httptest.NewServer(c.cloud)
	config, err := openstack.ReadConfig(strings.NewReader(fmt.Sprintf(configuration, server.URL)))
	if err != nil {
		return nil, fmt.Errorf("read the cloud config: %w", err)
	}
	config.LoadBalancerClass = c.classes
	provider, err := openstack.NewOpenStack(config)
	if err != nil {
		return nil, fmt.Errorf("start the controller: %w", err)
	}
	provider.Initialize(builder{cluster: c.cluster}, nil)
	c.LoadBalancer, _ = provider.LoadBalancer()
	return c, nil
}

// builder returns the client of a cluster that accepts everything. The controller uses it for Events and for the annotations
// that it writes.
type builder struct {
	cloudprovider.ControllerClientBuilder
	cluster kubernetes.Interface
}

// ClientOrDie returns the client.
func (b builder) ClientOrDie(string) kubernetes.Interface { return b.cluster }
