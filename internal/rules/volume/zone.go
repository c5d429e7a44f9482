package volume

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Driver is the CSI driver whose volume handles are the cloud's volume ids. It is stored in PersistentVolumes and must
// not change.
const Driver = "csi.mycloud.io"

const (
	// provisionedBy is the annotation of PersistentVolumes that a provisioner, and not a user, created.
	provisionedBy = "pv.kubernetes.io/provisioned-by"
	// unprovisioned is the placeholder volume handle of a volume that is still being provisioned.
	unprovisioned = "placeholder-for-provisioning"
	// zoneSeparator joins the zones of a volume in several zones. It is stored in PersistentVolumes and must not
	// change.
	zoneSeparator = "__"
)

// generation is a pair of label keys for zone and region.
type generation struct{ zone, region string }

var (
	current = generation{corev1.LabelTopologyZone, corev1.LabelTopologyRegion}
	beta    = generation{corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion}
)

// labels returns the pair of labels of a PersistentVolume; ok is false if one is missing.
func (g generation) labels(pv *corev1.PersistentVolume) (labels map[string]string, ok bool) {
	zone, hasZone := pv.Labels[g.zone]
	region, hasRegion := pv.Labels[g.region]
	if !hasZone || !hasRegion {
		return nil, false
	}
	return map[string]string{g.zone: zone, g.region: region}, true
}

// Zoned reports whether a PersistentVolume is a volume of the cloud and therefore has zones. One without an id is not;
// the API server rejects it.
func Zoned(pv *corev1.PersistentVolume) bool {
	csi := pv.Spec.CSI
	return csi != nil && csi.Driver == Driver && csi.VolumeHandle != "" && csi.VolumeHandle != unprovisioned
}

// Trusted returns the zone labels that a provisioner set on the PersistentVolume; they are used without querying the
// cloud. They keep their generation: the beta pair is used if the current one is incomplete.
func Trusted(pv *corev1.PersistentVolume) (labels map[string]string, ok bool) {
	if _, ok := pv.Annotations[provisionedBy]; !ok {
		return nil, false
	}
	if labels, ok = current.labels(pv); ok {
		return labels, true
	}
	return beta.labels(pv)
}

// Complete reports whether an existing PersistentVolume has zone labels and node affinity. An existing affinity is
// immutable, so its content does not matter.
func Complete(pv *corev1.PersistentVolume) bool {
	_, labeled := current.labels(pv)
	if !labeled {
		_, labeled = Trusted(pv)
	}
	return labeled && pv.Spec.NodeAffinity != nil
}

// Labels returns the labels of a volume in zones of a region. An error means that the cloud's response is invalid:
// labels that the API server rejects, for example, would look like the user's mistake.
func Labels(zones []string, region string) (map[string]string, error) {
	if len(zones) == 0 {
		return nil, errors.New("zones must not be empty")
	}
	joined := strings.Join(slices.Compact(slices.Sorted(slices.Values(zones))), zoneSeparator)
	if _, err := splitZones(joined); err != nil {
		return nil, fmt.Errorf("zones %q: %w", zones, err)
	}
	if region == "" {
		return nil, errors.New("region must not be empty")
	}
	for _, value := range []string{joined, region} {
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
			return nil, fmt.Errorf("label value %q: %s", value, strings.Join(problems, "; "))
		}
	}
	return map[string]string{current.zone: joined, current.region: region}, nil
}

// splitZones parses the value of a zone label.
func splitZones(value string) ([]string, error) {
	zones := strings.Split(value, zoneSeparator)
	for i, zone := range zones {
		if zones[i] = strings.TrimSpace(zone); zones[i] == "" {
			return nil, fmt.Errorf("must be non-empty zone names joined by %q", zoneSeparator)
		}
	}
	slices.Sort(zones)
	return slices.Compact(zones), nil
}
