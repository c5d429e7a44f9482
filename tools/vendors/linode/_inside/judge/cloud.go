package main

import (
	"context"

	"github.com/linode/linodego/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/testing"

	"github.com/linode/linode-cloud-controller-manager/cloud/annotations"
	"github.com/linode/linode-cloud-controller-manager/cloud/linode/client"
)

const defaultVPC, defaultSubnet = "vpc", "subnet"

// cloud is Linode's API, in which everything exists that the Service at hand names. A call that the controller has no
// reason to make panics, because the interface is nil.
type cloud struct {
	client.Client
	service *corev1.Service
}

func (c *cloud) ListVPCs(context.Context, *linodego.ListOptions) ([]linodego.VPC, error) {
	var list []linodego.VPC
	for i, name := range c.names(defaultVPC, annotations.NodeBalancerBackendVPCName, annotations.NodeBalancerFrontendVPCName) {
		list = append(list, linodego.VPC{ID: i + 1, Label: name})
	}
	return list, nil
}

func (c *cloud) ListVPCSubnets(context.Context, int, *linodego.ListOptions) ([]linodego.VPCSubnet, error) {
	var list []linodego.VPCSubnet
	for i, name := range c.names(defaultSubnet, annotations.NodeBalancerBackendSubnetName, annotations.NodeBalancerFrontendSubnetName) {
		list = append(list, linodego.VPCSubnet{ID: i + 1, Label: name})
	}
	return list, nil
}

// names returns a name and those that the Service has under the keys; nothing has an empty name.
func (c *cloud) names(name string, keys ...string) []string {
	all := []string{name}
	for _, key := range keys {
		if value := c.service.Annotations[key]; value != "" {
			all = append(all, value)
		}
	}
	return all
}

func (c *cloud) CreateNodeBalancer(_ context.Context, opts linodego.NodeBalancerCreateOptions) (*linodego.NodeBalancer, error) {
	balancer, _ := c.GetNodeBalancer(context.Background(), 1)
	balancer.Label, balancer.Tags, balancer.ClientConnThrottle = opts.Label, opts.Tags, *opts.ClientConnThrottle
	return balancer, nil
}

func (c *cloud) GetNodeBalancer(_ context.Context, id int) (*linodego.NodeBalancer, error) {
	text := func(s string) *string { return &s }
	return &linodego.NodeBalancer{
		ID: id, Label: text("balancer"), Region: "eu-central", Hostname: text("lb.example.com"), IPv4: text("203.0.113.5"),
		IPv6: text("2001:db8::5"),
	}, nil
}

func (c *cloud) UpdateNodeBalancer(ctx context.Context, id int, _ linodego.NodeBalancerUpdateOptions) (*linodego.NodeBalancer, error) {
	return c.GetNodeBalancer(ctx, id)
}

func (c *cloud) ListNodeBalancers(context.Context, *linodego.ListOptions) ([]linodego.NodeBalancer, error) {
	return nil, nil
}

func (c *cloud) ListNodeBalancerConfigs(context.Context, int, *linodego.ListOptions) ([]linodego.NodeBalancerConfig, error) {
	return nil, nil
}

func (c *cloud) CreateNodeBalancerConfig(context.Context, int, linodego.NodeBalancerConfigCreateOptions) (*linodego.NodeBalancerConfig, error) {
	return &linodego.NodeBalancerConfig{ID: 1}, nil
}

func (c *cloud) RebuildNodeBalancerConfig(context.Context, int, int, linodego.NodeBalancerConfigRebuildOptions) (*linodego.NodeBalancerConfig, error) {
	return &linodego.NodeBalancerConfig{ID: 1}, nil
}

func (c *cloud) ListNodeBalancerFirewalls(context.Context, int, *linodego.ListOptions) ([]linodego.Firewall, error) {
	return nil, nil
}

func (c *cloud) ListFirewallDevices(context.Context, int, *linodego.ListOptions) ([]linodego.FirewallDevice, error) {
	return nil, nil
}

func (c *cloud) CreateFirewallDevice(context.Context, int, linodego.FirewallDeviceCreateOptions) (*linodego.FirewallDevice, error) {
	return &linodego.FirewallDevice{}, nil
}

func (c *cloud) CreateFirewall(context.Context, linodego.FirewallCreateOptions) (*linodego.Firewall, error) {
	return &linodego.Firewall{ID: 1}, nil
}

func (c *cloud) GetFirewall(_ context.Context, id int) (*linodego.Firewall, error) {
	return &linodego.Firewall{ID: id}, nil
}

// kubernetes returns a cluster that accepts everything, and has every Secret whose name the API server accepts.
func kubernetes() *fake.Clientset {
	cluster := &fake.Clientset{}
	cluster.AddReactor("get", "secrets", func(action testing.Action) (bool, runtime.Object, error) {
		name := action.(testing.GetAction).GetName()
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			return true, nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
		}
		return true, &corev1.Secret{
			Data: map[string][]byte{corev1.TLSCertKey: []byte("certificate"), corev1.TLSPrivateKeyKey: []byte("key")},
		}, nil
	})
	return cluster
}
