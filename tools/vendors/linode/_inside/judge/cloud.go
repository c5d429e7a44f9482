package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/linode/linodego/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// cluster is the API server: it has every Secret, and stores nothing.
type cluster struct{}

func (cluster) RoundTrip(r *http.Request) (*http.Response, error) {
	body := []byte(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
	status := http.StatusNotFound
	if path.Base(path.Dir(r.URL.Path)) == "secrets" {
		status = http.StatusOK
		body, _ = json.Marshal(corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Name: path.Base(r.URL.Path), Namespace: "default"},
			Data:       map[string][]byte{corev1.TLSCertKey: []byte("certificate"), corev1.TLSPrivateKeyKey: []byte("key")},
		})
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": []string{"application/json"}},
		Body: io.NopCloser(strings.NewReader(string(body))), Request: r,
	}, nil
}
