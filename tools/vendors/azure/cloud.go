package main

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	network "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cloud-provider-azure/pkg/azclient"
	"sigs.k8s.io/cloud-provider-azure/pkg/azclient/loadbalancerclient"
	"sigs.k8s.io/cloud-provider-azure/pkg/azclient/privatelinkserviceclient"
	"sigs.k8s.io/cloud-provider-azure/pkg/azclient/providerclient"
	"sigs.k8s.io/cloud-provider-azure/pkg/azclient/publicipaddressclient"
	"sigs.k8s.io/cloud-provider-azure/pkg/azclient/routetableclient"
	"sigs.k8s.io/cloud-provider-azure/pkg/azclient/securitygroupclient"
	"sigs.k8s.io/cloud-provider-azure/pkg/azclient/subnetclient"
	"sigs.k8s.io/cloud-provider-azure/pkg/consts"
)

// cloud has what the Service at hand names, and what the controller has created for it.
type cloud struct {
	balancers []*network.LoadBalancer
	addresses []*network.PublicIPAddress
	links     []*network.PrivateLinkService
}

// serve prepares the cloud for one Service.
func (c *cloud) serve(service *corev1.Service) {
	*c = cloud{}
	first := network.IPVersionIPv4
	if families := service.Spec.IPFamilies; len(families) == 1 && families[0] == corev1.IPv6Protocol {
		first = network.IPVersionIPv6
	}
	for i, version := range []network.IPVersion{first, network.IPVersionIPv6} {
		name := service.Annotations[consts.ServiceAnnotationPIPNameDualStack[i == 1]] // the key is true for IPv6
		if name != "" {
			c.store(network.PublicIPAddress{
				Name: &name, Properties: &network.PublicIPAddressPropertiesFormat{PublicIPAddressVersion: &version},
			})
		}
	}
	for i, address := range []string{
		service.Annotations[consts.ServiceAnnotationLoadBalancerIPDualStack[consts.IPVersionIPv4]],
		service.Annotations[consts.ServiceAnnotationLoadBalancerIPDualStack[consts.IPVersionIPv6]], service.Spec.LoadBalancerIP,
	} {
		parsed, err := netip.ParseAddr(address)
		if err != nil {
			continue
		}
		name, version := fmt.Sprint("address-", i), network.IPVersionIPv4
		if parsed.Is6() {
			version = network.IPVersionIPv6
		}
		c.store(network.PublicIPAddress{
			Name: &name, Properties: &network.PublicIPAddressPropertiesFormat{IPAddress: &address, PublicIPAddressVersion: &version},
		})
	}
}

// store creates or replaces a public address.
func (c *cloud) store(address network.PublicIPAddress) *network.PublicIPAddress {
	address.ID = ptr(id(group, "publicIPAddresses", *address.Name))
	if method := network.IPAllocationMethodStatic; address.Properties.PublicIPAllocationMethod == nil {
		address.Properties.PublicIPAllocationMethod = &method
	}
	if address.Properties.IPAddress == nil {
		format := "203.0.113.%d"
		if version := address.Properties.PublicIPAddressVersion; version != nil && *version == network.IPVersionIPv6 {
			format = "2001:db8:ffff::%d"
		}
		address.Properties.IPAddress = ptr(fmt.Sprintf(format, 10+len(c.addresses)))
	}
	return replace(&c.addresses, &address, addressName)
}

func addressName(a *network.PublicIPAddress) *string { return a.Name }

func ptr[T any](value T) *T { return &value }

func id(group, kind, name string) string {
	return fmt.Sprintf("/subscriptions/%s/resourceGroups/%s/providers/Microsoft.Network/%s/%s", subscription, group, kind, name)
}

// replace adds a resource to a list, in which it replaces the one with its name.
func replace[T any](list *[]*T, one *T, name func(*T) *string) *T {
	for i, other := range *list {
		if strings.EqualFold(*name(other), *name(one)) {
			(*list)[i] = one
			return one
		}
	}
	*list = append(*list, one)
	return one
}

// find returns the resource with a name, or the error of the API.
func find[T any](list []*T, wanted string, name func(*T) *string) (*T, error) {
	for _, one := range list {
		if strings.EqualFold(*name(one), wanted) {
			return one, nil
		}
	}
	return nil, &azcore.ResponseError{StatusCode: http.StatusNotFound, ErrorCode: "ResourceNotFound"}
}

// clients are the controller's clients of the APIs. An API call that the controller has no reason to make for a new frontend
// panics, because the interface is nil.
type clients struct {
	azclient.ClientFactory
	cloud *cloud
}

func (c clients) GetLoadBalancerClient() loadbalancerclient.Interface {
	return balancers{cloud: c.cloud}
}

func (c clients) GetPublicIPAddressClient() publicipaddressclient.Interface {
	return addresses{cloud: c.cloud}
}

func (c clients) GetPrivateLinkServiceClient() privatelinkserviceclient.Interface {
	return links{cloud: c.cloud}
}

func (c clients) GetSecurityGroupClient() securitygroupclient.Interface { return securityGroups{} }

func (c clients) GetSubnetClient() subnetclient.Interface { return subnets{} }

func (c clients) GetProviderClient() providerclient.Interface { return providers{} }

func (c clients) GetRouteTableClient() routetableclient.Interface { return nil }

type balancers struct {
	loadbalancerclient.Interface
	*cloud
}

func balancerName(b *network.LoadBalancer) *string { return b.Name }

func (b balancers) List(context.Context, string) ([]*network.LoadBalancer, error) {
	return b.balancers, nil
}

func (b balancers) Get(_ context.Context, _, name string, _ *string) (*network.LoadBalancer, error) {
	return find(b.balancers, name, balancerName)
}

// CreateOrUpdate gives frontends without an address one of their subnet.
func (b balancers) CreateOrUpdate(_ context.Context, _, _ string, balancer network.LoadBalancer) (*network.LoadBalancer, error) {
	for _, frontend := range balancer.Properties.FrontendIPConfigurations {
		if p := frontend.Properties; p.Subnet != nil && p.PrivateIPAddress == nil {
			p.PrivateIPAddress = ptr("10.0.0.100")
			if p.PrivateIPAddressVersion != nil && *p.PrivateIPAddressVersion == network.IPVersionIPv6 {
				p.PrivateIPAddress = ptr("fd00::100")
			}
		}
	}
	return replace(&b.balancers, &balancer, balancerName), nil
}

// addresses are in every resource group.
type addresses struct {
	publicipaddressclient.Interface
	*cloud
}

func (a addresses) List(context.Context, string) ([]*network.PublicIPAddress, error) {
	return a.addresses, nil
}

func (a addresses) Get(_ context.Context, _, name string, _ *string) (*network.PublicIPAddress, error) {
	return find(a.addresses, name, addressName)
}

func (a addresses) CreateOrUpdate(_ context.Context, _, _ string, address network.PublicIPAddress) (*network.PublicIPAddress, error) {
	return a.store(address), nil
}

func (a addresses) Delete(_ context.Context, _, name string) error {
	a.addresses = slices.DeleteFunc(a.addresses, func(one *network.PublicIPAddress) bool { return strings.EqualFold(*one.Name, name) })
	return nil
}

type links struct {
	privatelinkserviceclient.Interface
	*cloud
}

func (l links) List(context.Context, string) ([]*network.PrivateLinkService, error) {
	return l.links, nil
}

func (l links) CreateOrUpdate(_ context.Context, group, name string, link network.PrivateLinkService) (*network.PrivateLinkService, error) {
	link.ID = ptr(id(group, "privateLinkServices", name))
	return replace(&l.links, &link, func(one *network.PrivateLinkService) *string { return one.Name }), nil
}

// securityGroups has one group, without rules.
type securityGroups struct{ securitygroupclient.Interface }

func (securityGroups) Get(_ context.Context, group, name string) (*network.SecurityGroup, error) {
	return &network.SecurityGroup{
		ID: ptr(id(group, "networkSecurityGroups", name)), Name: &name,
		Properties: &network.SecurityGroupPropertiesFormat{SecurityRules: []*network.SecurityRule{}},
	}, nil
}

func (securityGroups) CreateOrUpdate(_ context.Context, _, _ string, group network.SecurityGroup) (*network.SecurityGroup, error) {
	return &group, nil
}

// subnets has each subnet that is asked for.
type subnets struct{ subnetclient.Interface }

func (subnets) Get(_ context.Context, group, parent, name string, _ *string) (*network.Subnet, error) {
	return &network.Subnet{
		ID: ptr(id(group, "virtualNetworks", parent) + "/subnets/" + name), Name: &name, Properties: &network.SubnetPropertiesFormat{},
	}, nil
}

func (subnets) CreateOrUpdate(_ context.Context, _, _, _ string, subnet network.Subnet) (*network.Subnet, error) {
	return &subnet, nil
}

type providers struct{ providerclient.Interface }

func (providers) GetVirtualMachineSupportedZones(context.Context) (map[string][]*string, error) {
	return map[string][]*string{location: {ptr("1")}}, nil
}
