package lookup

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/volume"
)

// GetLabelsForVolume returns the topology labels of a volume of this cloud, and nil for other volumes. Its errors are
// those of Volume; a response without a zone, too, proves nothing about the volume.
func (l *Lookup) GetLabelsForVolume(ctx context.Context, pv *corev1.PersistentVolume) (map[string]string, error) {
	if !volume.Zoned(pv) {
		return nil, nil
	}
	found, err := l.Volume(ctx, pv.Spec.CSI.VolumeHandle)
	if err != nil {
		return nil, fmt.Errorf("persistent volume %s: %w", pv.Name, err)
	}
	zones := found.Zones
	if len(zones) == 0 && found.Zone != "" {
		zones = []string{found.Zone}
	}
	labels, err := volume.Labels(zones, found.Region)
	if err != nil {
		return nil, fmt.Errorf("persistent volume %s: malformed response for volume %s: %w", pv.Name, found.ID, err)
	}
	return labels, nil
}
