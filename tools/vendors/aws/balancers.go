package main

import (
	"context"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	aws "k8s.io/cloud-provider-aws/pkg/providers/v1"
)

// classic is the API of Classic Load Balancers, with the one that the Service at hand creates.
type classic struct {
	aws.ELB
	created *elbtypes.LoadBalancerDescription
}

func (c *classic) CreateLoadBalancer(_ context.Context, input *elb.CreateLoadBalancerInput, _ ...func(*elb.Options)) (*elb.CreateLoadBalancerOutput, error) {
	c.created = &elbtypes.LoadBalancerDescription{
		LoadBalancerName: input.LoadBalancerName, DNSName: sdk.String("lb.example.com"), Subnets: input.Subnets,
		SecurityGroups: input.SecurityGroups, HealthCheck: &elbtypes.HealthCheck{},
	}
	for _, listener := range input.Listeners {
		c.created.ListenerDescriptions = append(c.created.ListenerDescriptions, elbtypes.ListenerDescription{Listener: &listener})
	}
	return &elb.CreateLoadBalancerOutput{DNSName: c.created.DNSName}, nil
}

func (c *classic) DescribeLoadBalancers(context.Context, *elb.DescribeLoadBalancersInput, ...func(*elb.Options)) (*elb.DescribeLoadBalancersOutput, error) {
	output := &elb.DescribeLoadBalancersOutput{}
	if c.created != nil {
		output.LoadBalancerDescriptions = append(output.LoadBalancerDescriptions, *c.created)
	}
	return output, nil
}

func (c *classic) DescribeLoadBalancerAttributes(context.Context, *elb.DescribeLoadBalancerAttributesInput, ...func(*elb.Options)) (*elb.DescribeLoadBalancerAttributesOutput, error) {
	return &elb.DescribeLoadBalancerAttributesOutput{LoadBalancerAttributes: &elbtypes.LoadBalancerAttributes{}}, nil
}

func (c *classic) ModifyLoadBalancerAttributes(context.Context, *elb.ModifyLoadBalancerAttributesInput, ...func(*elb.Options)) (*elb.ModifyLoadBalancerAttributesOutput, error) {
	return &elb.ModifyLoadBalancerAttributesOutput{}, nil
}

func (c *classic) ConfigureHealthCheck(context.Context, *elb.ConfigureHealthCheckInput, ...func(*elb.Options)) (*elb.ConfigureHealthCheckOutput, error) {
	return &elb.ConfigureHealthCheckOutput{}, nil
}

func (c *classic) DescribeLoadBalancerPolicies(context.Context, *elb.DescribeLoadBalancerPoliciesInput, ...func(*elb.Options)) (*elb.DescribeLoadBalancerPoliciesOutput, error) {
	return nil, &elbtypes.PolicyNotFoundException{}
}

func (c *classic) CreateLoadBalancerPolicy(context.Context, *elb.CreateLoadBalancerPolicyInput, ...func(*elb.Options)) (*elb.CreateLoadBalancerPolicyOutput, error) {
	return &elb.CreateLoadBalancerPolicyOutput{}, nil
}

func (c *classic) SetLoadBalancerPoliciesForBackendServer(context.Context, *elb.SetLoadBalancerPoliciesForBackendServerInput, ...func(*elb.Options)) (*elb.SetLoadBalancerPoliciesForBackendServerOutput, error) {
	return &elb.SetLoadBalancerPoliciesForBackendServerOutput{}, nil
}

func (c *classic) SetLoadBalancerPoliciesOfListener(context.Context, *elb.SetLoadBalancerPoliciesOfListenerInput, ...func(*elb.Options)) (*elb.SetLoadBalancerPoliciesOfListenerOutput, error) {
	return &elb.SetLoadBalancerPoliciesOfListenerOutput{}, nil
}

// network is the API of Network Load Balancers, with the one that the Service at hand creates.
type network struct {
	aws.ELBV2
	created *elbv2types.LoadBalancer
	targets []elbv2types.TargetGroup
}

func (n *network) CreateLoadBalancer(_ context.Context, input *elbv2.CreateLoadBalancerInput, _ ...func(*elbv2.Options)) (*elbv2.CreateLoadBalancerOutput, error) {
	n.created = &elbv2types.LoadBalancer{
		LoadBalancerArn: sdk.String("arn:lb"), LoadBalancerName: input.Name, DNSName: sdk.String("lb.example.com"), Type: input.Type,
		VpcId: sdk.String(vpc), State: &elbv2types.LoadBalancerState{Code: elbv2types.LoadBalancerStateEnumActive},
	}
	for _, mapping := range input.SubnetMappings {
		n.created.AvailabilityZones = append(n.created.AvailabilityZones, elbv2types.AvailabilityZone{SubnetId: mapping.SubnetId})
	}
	return &elbv2.CreateLoadBalancerOutput{LoadBalancers: []elbv2types.LoadBalancer{*n.created}}, nil
}

func (n *network) DescribeLoadBalancers(context.Context, *elbv2.DescribeLoadBalancersInput, ...func(*elbv2.Options)) (*elbv2.DescribeLoadBalancersOutput, error) {
	if n.created == nil {
		return nil, &elbv2types.LoadBalancerNotFoundException{}
	}
	return &elbv2.DescribeLoadBalancersOutput{LoadBalancers: []elbv2types.LoadBalancer{*n.created}}, nil
}

func (n *network) CreateTargetGroup(_ context.Context, input *elbv2.CreateTargetGroupInput, _ ...func(*elbv2.Options)) (*elbv2.CreateTargetGroupOutput, error) {
	n.targets = append(n.targets, elbv2types.TargetGroup{TargetGroupArn: input.Name, Protocol: input.Protocol, TargetType: input.TargetType})
	return &elbv2.CreateTargetGroupOutput{TargetGroups: n.targets[len(n.targets)-1:]}, nil
}

func (n *network) DescribeTargetGroups(context.Context, *elbv2.DescribeTargetGroupsInput, ...func(*elbv2.Options)) (*elbv2.DescribeTargetGroupsOutput, error) {
	return &elbv2.DescribeTargetGroupsOutput{TargetGroups: n.targets}, nil
}

// DescribeTargetGroupAttributes returns the attributes that the controller manages with their defaults.
func (n *network) DescribeTargetGroupAttributes(context.Context, *elbv2.DescribeTargetGroupAttributesInput, ...func(*elbv2.Options)) (*elbv2.DescribeTargetGroupAttributesOutput, error) {
	return &elbv2.DescribeTargetGroupAttributesOutput{Attributes: []elbv2types.TargetGroupAttribute{
		{Key: sdk.String("preserve_client_ip.enabled"), Value: sdk.String("true")},
		{Key: sdk.String("proxy_protocol_v2.enabled"), Value: sdk.String("false")},
	}}, nil
}

func (n *network) ModifyTargetGroupAttributes(context.Context, *elbv2.ModifyTargetGroupAttributesInput, ...func(*elbv2.Options)) (*elbv2.ModifyTargetGroupAttributesOutput, error) {
	return &elbv2.ModifyTargetGroupAttributesOutput{}, nil
}

func (n *network) CreateListener(context.Context, *elbv2.CreateListenerInput, ...func(*elbv2.Options)) (*elbv2.CreateListenerOutput, error) {
	return &elbv2.CreateListenerOutput{Listeners: []elbv2types.Listener{{}}}, nil
}

func (n *network) DescribeLoadBalancerAttributes(context.Context, *elbv2.DescribeLoadBalancerAttributesInput, ...func(*elbv2.Options)) (*elbv2.DescribeLoadBalancerAttributesOutput, error) {
	return &elbv2.DescribeLoadBalancerAttributesOutput{}, nil
}

func (n *network) ModifyLoadBalancerAttributes(context.Context, *elbv2.ModifyLoadBalancerAttributesInput, ...func(*elbv2.Options)) (*elbv2.ModifyLoadBalancerAttributesOutput, error) {
	return &elbv2.ModifyLoadBalancerAttributesOutput{}, nil
}
