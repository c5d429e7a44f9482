package volume

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/rules"
)

// Ids of the findings about zones. They are stable: docs, metrics and suppressions refer to them.
const (
	idZoneLabelInvalid = "pv-zone-label-invalid"
	idLabelOverwritten = "pv-label-overwritten"
	idVolumeNotFound   = "pv-volume-not-found"
	idZoneUnavailable  = "pv-zone-unavailable"
)

const volumeHandle = "spec.csi.volumeHandle"

// ZoneRules documents every finding about the zones of PersistentVolumes.
func ZoneRules() []rules.Rule {
	return []rules.Rule{
		{ID: idZoneLabelInvalid, Severity: rules.Error, Help: "The zone label that a provisioner gave the PersistentVolume has an empty element, so that no node affinity can be made of it."},
		{ID: idVolumeNotFound, Severity: rules.Error, Help: "The cloud says that there is no volume with this id, so no pod could ever use the PersistentVolume."},
		{ID: idLabelOverwritten, Severity: rules.Warning, Help: "The PersistentVolume had a topology label with another value than the cloud's, which replaced it."},
		{ID: idZoneUnavailable, Severity: rules.Warning, Help: "The cloud gave no usable answer in time. The PersistentVolume is admitted as it is, and the controllers add labels and node affinity when the cloud answers."},
	}
}

// NotFound is the finding when the cloud says that there is no such volume.
func NotFound(pv *corev1.PersistentVolume) rules.Finding {
	return rules.Finding{
		ID: idVolumeNotFound, Severity: rules.Error, Type: field.ErrorTypeNotFound, Field: volumeHandle, Value: pv.Spec.CSI.VolumeHandle,
		Message: "must be the id of a volume that exists in the cloud", Remedy: "create the volume first, or correct the id",
	}
}

// ZoneUnavailable is the finding when the cloud cannot say where the volume is, which is no mistake of anybody who reads it.
func ZoneUnavailable() rules.Finding {
	return rules.Finding{
		ID: idZoneUnavailable, Severity: rules.Warning, Field: volumeHandle,
		Message: "zone labels and node affinity were not added because the cloud does not answer at the moment",
		Remedy:  "the controllers add them later",
	}
}

func invalidZoneLabel(key, value string, err error) rules.Finding {
	return rules.Finding{
		ID: idZoneLabelInvalid, Severity: rules.Error, Type: field.ErrorTypeInvalid, Field: labelField(key), Value: value,
		Message: err.Error(), Remedy: "write the volume's zones, such as eu-1a__eu-1b, or leave the label out and the cloud is asked",
	}
}

// The value that was overwritten is not repeated: nobody has validated it.
func overwrittenLabel(key, value string) rules.Finding {
	return rules.Finding{
		ID: idLabelOverwritten, Severity: rules.Warning, Field: labelField(key),
		Message: fmt.Sprintf("must be %q, as the cloud says; the value was replaced", value),
		Remedy:  "correct the manifest, or leave the label out",
	}
}

func labelField(key string) string { return field.NewPath("metadata", "labels").Key(key).String() }
