// The judge of catalog aws: the whole EnsureLoadBalancer of the AWS cloud provider against simulated APIs.
package main

import (
	"context"
	"errors"
	"log"
	"slices"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	aws "k8s.io/cloud-provider-aws/pkg/providers/v1"
	"k8s.io/cloud-provider-aws/pkg/providers/v1/config"
	"quaymaster.dev/tools/vendors/judge"
)

// external are the types of Services that the AWS Load Balancer Controller handles; both catalogs know that.
var external = []string{"nlb-ip", "external"}

func main() {
	cloud := &cloud{}
	var balancers *aws.Cloud
	judge.Main(judge.Description{
		Vendor: "aws",
		Module: "k8s.io/cloud-provider-aws",
		Date:   "2026-11-05",
		Covers: "EnsureLoadBalancer for a new Classic or Network Load Balancer with the default cloud config, against " +
			"simulated EC2 and ELB APIs that accept every request",
		NotCovered: []string{
			"which subnets, security groups, addresses and certificates exist: all that are named do",
			"what the AWS APIs refuse in a request that the controller sends",
			"changes of a load balancer that exists",
		},
	}, judge.ServiceController(func(service *corev1.Service) judge.Verdict {
		if slices.Contains(external, service.Annotations[aws.ServiceAnnotationLoadBalancerType]) {
			return judge.Skip("it is left to the AWS Load Balancer Controller")
		}
		if balancers == nil {
			var err error
			if balancers, err = start(cloud); err != nil {
				log.Fatal(err)
			}
		}
		cloud.serve(service)
		_, err := balancers.EnsureLoadBalancer(context.Background(), "cluster", service, nil)
		if errors.Is(err, cloudprovider.ImplementedElsewhere) {
			return judge.Skip(err.Error())
		}
		return judge.Refuse(err)
	}))
}

// start returns the controller's code. With these settings it does not look for the instance that it runs on.
func start(c *cloud) (*aws.Cloud, error) {
	var configuration config.CloudConfig
	configuration.Global.VPC, configuration.Global.SubnetID = vpc, "subnet-self"
	configuration.Global.KubernetesClusterID, configuration.Global.Zone = "cluster", "eu-central-1a"
	return aws.NewAWSCloud(configuration, clients{FakeAWSServices: aws.NewFakeAWSServices("cluster"), cloud: c})
}
