package oci

import (
	"go.uber.org/zap"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listersv1 "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	providercfg "github.com/oracle/oci-cloud-controller-manager/pkg/cloudprovider/providers/oci/config"
	"github.com/oracle/oci-cloud-controller-manager/pkg/oci/client"
)

// NewLoadBalancersForJudge returns the load balancers of the controller without its other controllers. It knows no other
// Service, so that no rule of a security list is already there.
func NewLoadBalancersForJudge(
	config *providercfg.Config, cloud client.Interface, cluster kubernetes.Interface, accounts listersv1.ServiceAccountLister,
) cloudprovider.LoadBalancer {
	services := informers.NewSharedInformerFactory(cluster, 0).Core().V1().Services()
	logger := zap.NewNop().Sugar()
	return &CloudProvider{
		client: cloud, kubeclient: cluster, config: config, logger: logger, lbLocks: NewLoadBalancerLocks(), ServiceAccountLister: accounts,
		securityListManagerFactory: func(mode string) securityListManager {
			return newSecurityListManager(logger, cloud, services, nil, mode)
		},
	}
}
