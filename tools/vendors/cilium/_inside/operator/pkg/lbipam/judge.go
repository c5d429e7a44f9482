package lbipam

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cilium_api_v2 "github.com/cilium/cilium/pkg/k8s/apis/cilium.io/v2"
	cilium_api_v2alpha1 "github.com/cilium/cilium/pkg/k8s/apis/cilium.io/v2alpha1"
	slim_core_v1 "github.com/cilium/cilium/pkg/k8s/slim/k8s/api/core/v1"
	slim_meta_v1 "github.com/cilium/cilium/pkg/k8s/slim/k8s/apis/meta/v1"
	client_typed_v1 "github.com/cilium/cilium/pkg/k8s/slim/k8s/client/clientset/versioned/typed/core/v1"
)

// AllocateForJudge allocates addresses for a new Service, also if it has no class, from a pool of all addresses. It returns
// the reasons of conditions that are false.
func AllocateForJudge(ctx context.Context, logger *slog.Logger, service *slim_core_v1.Service) (unsatisfied []string, err error) {
	services := &services{}
	ipam := newLBIPAM(lbIPAMParams{
		logger: logger, metrics: newMetrics(), poolClient: pools{}, svcClient: services, defaultIPAM: true, ipv4Enabled: true, ipv6Enabled: true,
		lbClasses: []string{cilium_api_v2alpha1.BGPLoadBalancerClass, cilium_api_v2alpha1.L2AnnounceLoadBalancerClass},
	})
	err = errors.Join(
		ipam.poolOnUpsert(ctx, &cilium_api_v2.CiliumLoadBalancerIPPool{
			ObjectMeta: metav1.ObjectMeta{Name: "everything"},
			Spec: cilium_api_v2.CiliumLoadBalancerIPPoolSpec{
				Blocks: []cilium_api_v2.CiliumLoadBalancerIPPoolIPBlock{{Cidr: "0.0.0.0/0"}, {Cidr: "::/0"}},
			},
		}),
		ipam.svcOnUpsert(ctx, service, false),
	)
	for _, condition := range services.status.Conditions {
		if condition.Status == slim_meta_v1.ConditionFalse {
			unsatisfied = append(unsatisfied, condition.Reason+": "+condition.Message)
		}
	}
	return unsatisfied, err
}

// pools is a client that forgets the status of pools.
type pools struct{}

func (pools) Patch(
	context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string,
) (*cilium_api_v2.CiliumLoadBalancerIPPool, error) {
	return nil, nil
}

// services is a client that remembers the status of the last Service.
type services struct {
	client_typed_v1.ServiceInterface

	status slim_core_v1.ServiceStatus
}

func (s *services) Services(string) client_typed_v1.ServiceInterface { return s }

func (s *services) Patch(
	_ context.Context, _ string, _ types.PatchType, patch []byte, _ metav1.PatchOptions, _ ...string,
) (*slim_core_v1.Service, error) {
	operations := []struct{ Value *slim_core_v1.ServiceStatus }{{Value: &s.status}}
	return nil, json.Unmarshal(patch, &operations)
}
