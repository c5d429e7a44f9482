// The judge of catalog azure: the whole EnsureLoadBalancer of the Azure cloud provider against simulated APIs.
package main

import (
	"context"
	"log"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"quaymaster.dev/tools/vendors/judge"
	"sigs.k8s.io/cloud-provider-azure/pkg/consts"
)

func main() {
	klog.SetLogger(logr.Discard())
	var one, several *controller
	judge.Main(judge.Description{
		Vendor: "azure",
		Module: "sigs.k8s.io/cloud-provider-azure",
		Date:   "2026-08-10",
		Covers: "EnsureLoadBalancer for a new frontend of a standard load balancer, in a cluster with one load balancer, or with " +
			"several if azure-load-balancer-configurations names some, against simulated APIs that accept every request",
		NotCovered: []string{
			"which load balancers, addresses, subnets and resource groups exist: all that are named do",
			"what the cloud's APIs refuse in a request that the controller sends",
			"nodes and backend pools",
			"changes of a load balancer that exists",
			"the basic SKU, the ServiceGateway, and what else the cloud config selects",
		},
	}, judge.ServiceController(func(service *corev1.Service) judge.Verdict {
		names := consts.GetLoadBalancerConfigurationsNames(service)
		used := &one
		if len(names) > 0 {
			used = &several
		}
		if *used == nil {
			var err error
			if *used, err = start(len(names) > 0); err != nil {
				log.Fatal(err)
			}
		}
		(*used).serve(service, names)
		_, err := (*used).EnsureLoadBalancer(context.Background(), cluster, service, nil)
		return judge.Refuse(err)
	}))
}
