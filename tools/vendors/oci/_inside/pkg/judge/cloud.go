package main

import (
	"context"
	"net/http"
	"time"

	"github.com/oracle/oci-go-sdk/v65/common"
	"github.com/oracle/oci-go-sdk/v65/core"
	"go.uber.org/zap"
	authv1 "k8s.io/api/authentication/v1"

	"github.com/oracle/oci-cloud-controller-manager/pkg/oci/client"
)

// cloud simulates the clients of the cloud's APIs. It accepts everything, so that errors are the controller's own: there
// is no load balancer yet, and whatever subnet, security group and address a request names. What it does not implement is
// nil, so that the controller crashes on it, which the comparison shows.
type cloud struct{ client.Interface }

var _ client.Interface = (*cloud)(nil)

// Networking returns the client of virtual networks.
func (*cloud) Networking(*client.OCIClientConfig) client.NetworkingInterface { return networks{} }

// LoadBalancer returns the client of one kind of load balancer.
func (*cloud) LoadBalancer(*zap.SugaredLogger, string, string, *authv1.TokenRequest) client.GenericLoadBalancerInterface {
	return balancers{}
}

// missing is the answer of an API that lacks what was asked for.
type missing struct{}

var _ common.ServiceError = missing{}

func (missing) Error() string           { return "not found" }
func (missing) GetHTTPStatusCode() int  { return http.StatusNotFound }
func (missing) GetMessage() string      { return "not found" }
func (missing) GetCode() string         { return "NotAuthorizedOrNotFound" }
func (missing) GetOpcRequestID() string { return "" }

type balancers struct {
	client.GenericLoadBalancerInterface
}

func (balancers) GetLoadBalancerByName(context.Context, string, string) (*client.GenericLoadBalancer, error) {
	return nil, missing{}
}

func (balancers) CreateLoadBalancer(context.Context, *client.GenericCreateLoadBalancerDetails, *string) (string, error) {
	return "work", nil
}

func (balancers) AwaitWorkRequest(_ context.Context, id string) (*client.GenericWorkRequest, error) {
	return &client.GenericWorkRequest{Id: &id, LoadBalancerId: common.String("ocid1.loadbalancer.oc1..new")}, nil
}

func (balancers) GetLoadBalancer(_ context.Context, id string) (*client.GenericLoadBalancer, error) {
	return &client.GenericLoadBalancer{
		Id: &id, DisplayName: common.String("new"), LifecycleState: common.String("ACTIVE"),
		IpAddresses: []client.GenericIpAddress{{IpAddress: common.String("203.0.113.1"), IsPublic: common.Bool(true)}},
	}, nil
}

type networks struct{ client.NetworkingInterface }

func (networks) GetSubnet(_ context.Context, id string) (*core.Subnet, error) {
	return &core.Subnet{
		Id: &id, CidrBlock: common.String("10.0.0.0/24"), Ipv6CidrBlock: common.String("fd00::/64"), Ipv6CidrBlocks: []string{"fd00::/64"},
		SecurityListIds: []string{"ocid1.securitylist.oc1.." + id},
	}, nil
}

func (n networks) GetSubnetFromCacheByIP(client.IpAddresses) (*core.Subnet, error) {
	return n.GetSubnet(context.Background(), "nodes")
}

func (networks) IsRegionalSubnet(context.Context, string) (bool, error) { return true, nil }

func (networks) GetSecurityList(_ context.Context, id string) (core.GetSecurityListResponse, error) {
	return core.GetSecurityListResponse{
		SecurityList: core.SecurityList{Id: &id, TimeCreated: &common.SDKTime{Time: time.Unix(0, 0)}}, Etag: common.String("1"),
	}, nil
}

func (networks) UpdateSecurityList(
	context.Context, string, string, []core.IngressSecurityRule, []core.EgressSecurityRule,
) (core.UpdateSecurityListResponse, error) {
	return core.UpdateSecurityListResponse{}, nil
}

func (networks) GetPublicIpByIpAddress(_ context.Context, address string) (*core.PublicIp, error) {
	return &core.PublicIp{
		Id: common.String("ocid1.publicip.oc1..reserved"), IpAddress: &address, LifecycleState: core.PublicIpLifecycleStateAvailable,
	}, nil
}

func (networks) ListNetworkSecurityGroups(context.Context, string, string, string) ([]core.NetworkSecurityGroup, error) {
	return nil, nil
}

func (networks) CreateNetworkSecurityGroup(_ context.Context, _, _, name, _ string) (*core.NetworkSecurityGroup, error) {
	return group("ocid1.networksecuritygroup.oc1..new"), nil
}

func (networks) GetNetworkSecurityGroup(_ context.Context, id string) (*core.NetworkSecurityGroup, *string, error) {
	return group(id), common.String("1"), nil
}

func (networks) UpdateNetworkSecurityGroup(_ context.Context, id, _ string, _ map[string]string) (*core.NetworkSecurityGroup, error) {
	return group(id), nil
}

func group(id string) *core.NetworkSecurityGroup {
	return &core.NetworkSecurityGroup{Id: &id, FreeformTags: map[string]string{}}
}

func (networks) ListNetworkSecurityGroupSecurityRules(
	context.Context, string, core.ListNetworkSecurityGroupSecurityRulesDirectionEnum,
) ([]core.SecurityRule, error) {
	return nil, nil
}

func (networks) AddNetworkSecurityGroupSecurityRules(
	context.Context, string, core.AddNetworkSecurityGroupSecurityRulesDetails,
) (*core.AddNetworkSecurityGroupSecurityRulesResponse, error) {
	return &core.AddNetworkSecurityGroupSecurityRulesResponse{}, nil
}
