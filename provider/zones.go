package provider

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

// zones implements the older interface on top of InstancesV2.
type zones struct{ v2 *instancesV2 }

var _ cloudprovider.Zones = (*zones)(nil)

// GetZone is for kubelets with a built-in provider, which do not exist for mycloud.
func (z *zones) GetZone(context.Context) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{}, cloudprovider.NotImplemented
}

func (z *zones) GetZoneByProviderID(ctx context.Context, providerID string) (cloudprovider.Zone, error) {
	node, err := withProviderID(providerID)
	if err != nil {
		return cloudprovider.Zone{}, err
	}
	return z.zone(ctx, node)
}

func (z *zones) GetZoneByNodeName(ctx context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	return z.zone(ctx, nodeNamed(name))
}

func (z *zones) zone(ctx context.Context, node *corev1.Node) (cloudprovider.Zone, error) {
	metadata, err := z.v2.InstanceMetadata(ctx, node)
	if err != nil {
		return cloudprovider.Zone{}, err
	}
	return cloudprovider.Zone{FailureDomain: metadata.Zone, Region: metadata.Region}, nil
}
