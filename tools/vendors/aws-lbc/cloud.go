package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	k8stypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/aws-load-balancer-controller/v3/pkg/annotations"
	awsservices "sigs.k8s.io/aws-load-balancer-controller/v3/pkg/aws/services"
	"sigs.k8s.io/aws-load-balancer-controller/v3/pkg/deploy/elbv2"
	"sigs.k8s.io/aws-load-balancer-controller/v3/pkg/deploy/tracking"
	"sigs.k8s.io/aws-load-balancer-controller/v3/pkg/networking"
	"sigs.k8s.io/aws-load-balancer-controller/v3/pkg/service"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cloud is the EC2 API of a VPC in which everything exists that the Service at hand names. An API call that the model
// builder has no reason to make panics, because the interface is nil.
type cloud struct {
	awsservices.EC2
	// subnets are in the order in which the Service names them or, without names, gives their addresses.
	subnets []subnet
	// backends are the other Services that actions forward to.
	backends map[string]*corev1.Service
}

type subnet struct {
	name, id  string
	ipv4      string
	ipv6      []string
	mentioned bool
}

// serve prepares the cloud for one Service.
func (c *cloud) serve(s *corev1.Service) {
	values := func(suffix string) []string {
		var list []string
		annotations.NewSuffixAnnotationParser(prefix).ParseStringSliceAnnotation(suffix, &list, s.Annotations)
		return list
	}
	names, ipv4 := values(annotations.SvcLBSuffixSubnets), values(annotations.SvcLBSuffixPrivateIpv4Addresses)
	ipv6, nat := values(annotations.SvcLBSuffixIpv6Addresses), values(annotations.SvcLBSuffixSourceNatIpv6Prefixes)
	count := len(names)
	if count == 0 {
		count = max(1, len(values(annotations.SvcLBSuffixEIPAllocations)), len(ipv4), len(ipv6), len(nat))
	}
	c.subnets = nil
	for i := range count {
		next := subnet{id: fmt.Sprintf("subnet-%04d", i), ipv4: fmt.Sprintf("198.18.%d.0/24", i%256), ipv6: []string{fmt.Sprintf("fd00:0:0:%x::/64", i)}}
		if i < len(names) {
			next.name, next.mentioned = names[i], true
			if strings.HasPrefix(names[i], "subnet-") {
				next.id = names[i]
			}
		}
		if i < len(ipv4) {
			next.ipv4 = single(ipv4[i], next.ipv4)
		}
		if i < len(ipv6) {
			next.ipv6 = append(next.ipv6, single(ipv6[i], next.ipv6[0]))
		}
		if i < len(nat) {
			address, _, _ := strings.Cut(nat[i], "/")
			next.ipv6 = append(next.ipv6, single(address, next.ipv6[0]))
		}
		c.subnets = append(c.subnets, next)
	}
	c.serveBackends(s)
}

// single returns the network with one address, or else the other network.
func single(address, other string) string {
	parsed, err := netip.ParseAddr(address)
	if err != nil {
		return other
	}
	return netip.PrefixFrom(parsed.WithZone(""), parsed.BitLen()).String()
}

// serveBackends lets the Services exist that actions name, with the ports that they name and those of s itself.
func (c *cloud) serveBackends(s *corev1.Service) {
	c.backends = map[string]*corev1.Service{}
	for key, value := range s.Annotations {
		var action service.Action
		if !strings.HasPrefix(key, prefix+"/actions.") || json.Unmarshal([]byte(value), &action) != nil || action.ForwardConfig == nil {
			continue
		}
		for _, group := range action.ForwardConfig.TargetGroups {
			if group.ServiceName == nil || group.ServicePort == nil {
				continue
			}
			backend := c.backends[*group.ServiceName]
			if backend == nil {
				backend = s.DeepCopy()
				backend.Name, backend.Annotations = *group.ServiceName, nil
				c.backends[backend.Name] = backend
			}
			port := corev1.ServicePort{Name: group.ServicePort.StrVal, Port: group.ServicePort.IntVal, Protocol: corev1.ProtocolTCP, NodePort: 31999}
			if group.ServicePort.StrVal != "" {
				port.Port = 80
			}
			port.TargetPort = *group.ServicePort
			backend.Spec.Ports = append(backend.Spec.Ports, port)
		}
	}
}

func (c *cloud) DescribeSubnetsAsList(_ context.Context, input *ec2.DescribeSubnetsInput) ([]types.Subnet, error) {
	var list []types.Subnet
	for i, s := range c.subnets {
		if s.mentioned == (len(input.SubnetIds) == 0 && !names(input.Filters, s.name)) {
			continue
		}
		if len(input.SubnetIds) > 0 && (!slices.Contains(input.SubnetIds, s.id) || slices.ContainsFunc(c.subnets[:i], func(o subnet) bool { return o.id == s.id })) {
			continue
		}
		associated := &types.SubnetCidrBlockState{State: types.SubnetCidrBlockStateCodeAssociated}
		out := types.Subnet{
			SubnetId: aws.String(s.id), VpcId: aws.String(vpc), CidrBlock: aws.String(s.ipv4), AvailableIpAddressCount: aws.Int32(200),
			AvailabilityZone: aws.String(fmt.Sprint("zone", i)), AvailabilityZoneId: aws.String(fmt.Sprint("zone", i)),
			Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String(s.name)}},
		}
		for _, cidr := range s.ipv6 {
			out.Ipv6CidrBlockAssociationSet = append(out.Ipv6CidrBlockAssociationSet, types.SubnetIpv6CidrBlockAssociation{
				Ipv6CidrBlock: aws.String(cidr), Ipv6CidrBlockState: associated,
			})
		}
		list = append(list, out)
	}
	return list, nil
}

// names reports whether a filter asks for subnets with the name.
func names(filters []types.Filter, name string) bool {
	return slices.ContainsFunc(filters, func(f types.Filter) bool {
		return aws.ToString(f.Name) == "tag:Name" && slices.Contains(f.Values, name)
	})
}

// DescribeSecurityGroupsAsList returns each group once, as EC2 does.
func (c *cloud) DescribeSecurityGroupsAsList(_ context.Context, input *ec2.DescribeSecurityGroupsInput) ([]types.SecurityGroup, error) {
	var list []types.SecurityGroup
	for _, id := range slices.Compact(slices.Sorted(slices.Values(input.GroupIds))) {
		list = append(list, types.SecurityGroup{GroupId: aws.String(id)})
	}
	for _, f := range input.Filters {
		if aws.ToString(f.Name) != "tag:Name" {
			continue
		}
		for _, name := range f.Values {
			list = append(list, types.SecurityGroup{
				GroupId: aws.String("sg-of-" + name), Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String(name)}},
			})
		}
	}
	return list, nil
}

func (c *cloud) DescribeAvailabilityZonesWithContext(_ context.Context, input *ec2.DescribeAvailabilityZonesInput) (*ec2.DescribeAvailabilityZonesOutput, error) {
	output := &ec2.DescribeAvailabilityZonesOutput{}
	for _, id := range input.ZoneIds {
		output.AvailabilityZones = append(output.AvailabilityZones, types.AvailabilityZone{ZoneId: aws.String(id), ZoneType: aws.String("availability-zone")})
	}
	return output, nil
}

func (c *cloud) DescribeVpcsWithContext(context.Context, *ec2.DescribeVpcsInput) (*ec2.DescribeVpcsOutput, error) {
	return &ec2.DescribeVpcsOutput{Vpcs: []types.Vpc{{VpcId: aws.String(vpc), CidrBlock: aws.String("198.18.0.0/15")}}}, nil
}

// tags is the tagging API of an account without load balancers.
type tags struct{ elbv2.TaggingManager }

func (tags) ListLoadBalancers(context.Context, ...tracking.TagFilter) ([]elbv2.LoadBalancerWithTags, error) {
	return nil, nil
}

// backendGroup is the security group that the controller shares between load balancers.
type backendGroup struct{ networking.BackendSGProvider }

func (backendGroup) Get(context.Context, networking.ResourceType, []k8stypes.NamespacedName) (string, error) {
	return "sg-backend", nil
}

// services is the API server as far as actions ask it: for the Services that they forward to.
type services struct {
	client.Client
	cloud *cloud
}

func (c services) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	backend, found := c.cloud.backends[key.Name]
	if !found {
		return fmt.Errorf("service %q not found", key)
	}
	backend.DeepCopyInto(object.(*corev1.Service))
	return nil
}
