package volume

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Driver is the CSI driver whose volume handles are the cloud's volume ids. PersistentVolumes carry it: it must not change.
const Driver = "csi.mycloud.io"

const (
	// provisionedBy is the annotation of a PersistentVolume that a provisioner made, not a person.
	provisionedBy = "pv.kubernetes.io/provisioned-by"
	// unprovisioned stands in the place of an id for a volume that is still being made.
	unprovisioned = "placeholder-for-provisioning"
	// zoneSeparator joins the zones of a volume that is in several. PersistentVolumes carry it: it must not change.
	zoneSeparator = "__"
)

// generation is a pair of labels for zone and region.
type generation struct{ zone, region string }

var (
	current = generation{corev1.LabelTopologyZone, corev1.LabelTopologyRegion}
	beta    = generation{corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion}
)

// of gives the pair of labels of a PersistentVolume; ok is false if one is missing.
func (g generation) of(pv *corev1.PersistentVolume) (labels map[string]string, ok bool) {
	zone, hasZone := pv.Labels[g.zone]
	region, hasRegion := pv.Labels[g.region]
	if !hasZone || !hasRegion {
		return nil, false
	}
	return map[string]string{g.zone: zone, g.region: region}, true
}

// Zoned tells whether a PersistentVolume is a volume of the cloud, which is in zones. One without an id is none: the API server
// refuses it.
func Zoned(pv *corev1.PersistentVolume) bool {
	csi := pv.Spec.CSI
	return csi != nil && csi.Driver == Driver && csi.VolumeHandle != "" && csi.VolumeHandle != unprovisioned
}

// Trusted are the labels that a provisioner gave the PersistentVolume, which need no question to the cloud. They stay in their
// generation: the beta pair counts if the current one is incomplete.
func Trusted(pv *corev1.PersistentVolume) (labels map[string]string, ok bool) {
	if _, ok := pv.Annotations[provisionedBy]; !ok {
		return nil, false
	}
	if labels, ok = current.of(pv); ok {
		return labels, true
	}
	return beta.of(pv)
}

// Complete tells whether a PersistentVolume that exists has its labels, and node affinity. An affinity that is there cannot be
// changed any more, whatever it says.
func Complete(pv *corev1.PersistentVolume) bool {
	_, labeled := current.of(pv)
	if !labeled {
		_, labeled = Trusted(pv)
	}
	return labeled && pv.Spec.NodeAffinity != nil
}

// Labels are the labels of a volume in zones of a region. An error means that the cloud's answer makes no sense: labels that the
// API server refuses, say, would turn it into the user's mistake.
func Labels(zones []string, region string) (map[string]string, error) {
	if len(zones) == 0 {
		return nil, errors.New("zone must not be missing")
	}
	joined := strings.Join(slices.Compact(slices.Sorted(slices.Values(zones))), zoneSeparator)
	if _, err := splitZones(joined); err != nil {
		return nil, fmt.Errorf("zones %q: %w", zones, err)
	}
	if region == "" {
		return nil, errors.New("region must not be missing")
	}
	for _, value := range []string{joined, region} {
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
			return nil, fmt.Errorf("label value %q: %s", value, strings.Join(problems, "; "))
		}
	}
	return map[string]string{current.zone: joined, current.region: region}, nil
}

// splitZones reads a label's value: one zone, or several.
func splitZones(value string) ([]string, error) {
	zones := strings.Split(value, zoneSeparator)
	for i, zone := range zones {
		if zones[i] = strings.TrimSpace(zone); zones[i] == "" {
			return nil, fmt.Errorf("must be zones joined by %q, none of them empty", zoneSeparator)
		}
	}
	slices.Sort(zones)
	return slices.Compact(zones), nil
}
