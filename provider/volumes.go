package provider

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"quaymaster.dev/provider/lookup"
)

var _ cloudprovider.PVLabeler = (*Provider)(nil)

// GetLabelsForVolume returns the topology labels of a volume of this cloud, and nil for other volumes. The error wraps
// cloudprovider.DiskNotFound if the cloud answered that the volume does not exist; any other error proves nothing about
// the volume.
func (p *Provider) GetLabelsForVolume(ctx context.Context, pv *corev1.PersistentVolume) (map[string]string, error) {
	return lookup.Labels(ctx, p.cloud, pv)
}
