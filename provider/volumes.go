package provider

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"quaymaster.dev/provider/cloudapi"
)

// csiDriver is the driver whose volume handles are the cloud's volume ids.
const csiDriver = "csi.mycloud.io"

// zoneSeparator joins the zones of a volume that is in several, as volume topology labels do.
const zoneSeparator = "__"

var _ cloudprovider.PVLabeler = (*Provider)(nil)

// GetLabelsForVolume are the topology labels of a volume of this cloud; those of other volumes are nil.
func (p *Provider) GetLabelsForVolume(ctx context.Context, pv *corev1.PersistentVolume) (map[string]string, error) {
	if pv.Spec.CSI == nil || pv.Spec.CSI.Driver != csiDriver {
		return nil, nil
	}
	volume, err := p.cloud.Volume(ctx, pv.Spec.CSI.VolumeHandle, cloudapi.ReadOptions{})
	if err != nil {
		return nil, fmt.Errorf("persistent volume %s: %w", pv.Name, err)
	}
	labels := map[string]string{}
	zone := volume.Zone
	if len(volume.Zones) > 0 {
		zone = strings.Join(volume.Zones, zoneSeparator)
	}
	if zone != "" {
		labels[corev1.LabelTopologyZone] = zone
	}
	if volume.Region != "" {
		labels[corev1.LabelTopologyRegion] = volume.Region
	}
	return labels, nil
}
