package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	aws "k8s.io/cloud-provider-aws/pkg/providers/v1"
	"k8s.io/cloud-provider-aws/pkg/providers/v1/iface"
)

const vpc = "vpc-0"

// clients are the controller's clients of the APIs.
type clients struct {
	*aws.FakeAWSServices
	cloud *cloud
}

var _ aws.Services = clients{}

func (c clients) Compute(context.Context, string, *stscreds.AssumeRoleProvider) (iface.EC2, error) {
	return c.cloud, nil
}

func (c clients) LoadBalancing(context.Context, string, *stscreds.AssumeRoleProvider) (aws.ELB, error) {
	return &c.cloud.classic, nil
}

func (c clients) LoadBalancingV2(context.Context, string, *stscreds.AssumeRoleProvider) (aws.ELBV2, error) {
	return &c.cloud.network, nil
}

// cloud is the EC2 API of a VPC in which everything exists that the Service at hand names. An API call that the controller
// has no reason to make for a new load balancer panics, because the interface is nil.
type cloud struct {
	iface.EC2
	subnets int // without names, the VPC has as many as the Service has addresses
	classic classic
	network network
}

// serve prepares the cloud for one Service.
func (c *cloud) serve(service *corev1.Service) {
	c.classic, c.network = classic{}, network{}
	c.subnets = 1
	for _, key := range []string{aws.ServiceAnnotationLoadBalancerEIPAllocations, aws.ServiceAnnotationLoadBalancerPrivateIPv4Addresses} {
		if list, found := service.Annotations[key]; found {
			c.subnets = max(c.subnets, strings.Count(list, ",")+1)
		}
	}
}

// DescribeSubnets returns each subnet once, as EC2 does: by id, by name, or all of the VPC.
func (c *cloud) DescribeSubnets(_ context.Context, input *ec2.DescribeSubnetsInput, _ ...func(*ec2.Options)) ([]ec2types.Subnet, error) {
	ids := slices.Clone(input.SubnetIds)
	for _, f := range input.Filters {
		if sdk.ToString(f.Name) == "tag:Name" {
			for _, name := range f.Values {
				ids = append(ids, "subnet-of-"+name)
			}
		}
	}
	for i := range c.subnets {
		if len(ids) == i {
			ids = append(ids, fmt.Sprintf("subnet-%04d", i))
		}
	}
	var list []ec2types.Subnet
	for i, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		list = append(list, ec2types.Subnet{
			SubnetId: sdk.String(id), VpcId: sdk.String(vpc), CidrBlock: sdk.String("198.18.0.0/24"),
			AvailabilityZone: sdk.String(fmt.Sprintf("zone-%04d", i)),
		})
	}
	return list, nil
}

// DescribeRouteTables returns one table that makes every subnet public.
func (c *cloud) DescribeRouteTables(context.Context, *ec2.DescribeRouteTablesInput, ...func(*ec2.Options)) ([]ec2types.RouteTable, error) {
	return []ec2types.RouteTable{{
		RouteTableId: sdk.String("rtb-0"),
		Associations: []ec2types.RouteTableAssociation{{Main: sdk.Bool(true)}},
		Routes:       []ec2types.Route{{GatewayId: sdk.String("igw-0")}},
	}}, nil
}

func (c *cloud) DescribeAvailabilityZones(_ context.Context, input *ec2.DescribeAvailabilityZonesInput, _ ...func(*ec2.Options)) ([]ec2types.AvailabilityZone, error) {
	var list []ec2types.AvailabilityZone
	for _, name := range input.ZoneNames {
		list = append(list, ec2types.AvailabilityZone{ZoneName: sdk.String(name), ZoneType: sdk.String("availability-zone")})
	}
	return list, nil
}

func (c *cloud) DescribeInstances(context.Context, *ec2.DescribeInstancesInput, ...func(*ec2.Options)) ([]ec2types.Instance, error) {
	return nil, nil
}

// DescribeSecurityGroups finds only a group that the controller asks for by its id.
func (c *cloud) DescribeSecurityGroups(_ context.Context, input *ec2.DescribeSecurityGroupsInput, _ ...func(*ec2.Options)) ([]ec2types.SecurityGroup, error) {
	var list []ec2types.SecurityGroup
	ids := slices.Clone(input.GroupIds)
	for _, f := range input.Filters {
		if sdk.ToString(f.Name) == "group-id" {
			ids = append(ids, f.Values...)
		}
	}
	for _, id := range ids {
		list = append(list, ec2types.SecurityGroup{GroupId: sdk.String(id)})
	}
	return list, nil
}

func (c *cloud) CreateSecurityGroup(context.Context, *ec2.CreateSecurityGroupInput, ...func(*ec2.Options)) (*ec2.CreateSecurityGroupOutput, error) {
	return &ec2.CreateSecurityGroupOutput{GroupId: sdk.String("sg-new")}, nil
}

func (c *cloud) AuthorizeSecurityGroupIngress(context.Context, *ec2.AuthorizeSecurityGroupIngressInput, ...func(*ec2.Options)) (*ec2.AuthorizeSecurityGroupIngressOutput, error) {
	return &ec2.AuthorizeSecurityGroupIngressOutput{}, nil
}
