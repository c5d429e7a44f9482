package volume

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/finding"
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
func ZoneDocs() []finding.Doc {
	return []finding.Doc{
		{ID: idZoneLabelInvalid, Severity: finding.Error, Help: "The zone label that a provisioner gave the PersistentVolume has an empty element, so that no node affinity can be made of it."},
		{ID: idVolumeNotFound, Severity: finding.Error, Help: "The cloud says that there is no volume with this id, so no pod could ever use the PersistentVolume."},
		{ID: idLabelOverwritten, Severity: finding.Warning, Help: "The PersistentVolume had a topology label with another value than the cloud's, which replaced it."},
		{ID: idZoneUnavailable, Severity: finding.Warning, Help: "The cloud gave no usable answer in time. The PersistentVolume is admitted as it is, and the controllers add labels and node affinity when the cloud answers."},
	}
}

// NotFound is the finding when the cloud says that there is no such volume.
func NotFound(pv *corev1.PersistentVolume) finding.Finding {
	return finding.Finding{
		ID: idVolumeNotFound, Severity: finding.Error, Type: field.ErrorTypeNotFound, Field: volumeHandle, Value: pv.Spec.CSI.VolumeHandle,
		Message: "must be the id of a volume that exists in the cloud", Remedy: "create the volume first, or correct the id",
	}
}

// ZoneUnavailable is the finding when the cloud cannot say where the volume is, which is no mistake of anybody who reads it.
func ZoneUnavailable() finding.Finding {
	return finding.Finding{
		ID: idZoneUnavailable, Severity: finding.Warning, Field: volumeHandle,
		Message: "zone labels and node affinity were not added because the cloud does not answer at the moment",
		Remedy:  "the controllers add them later",
	}
}

func invalidZoneLabel(key, value string, err error) finding.Finding {
	return finding.Finding{
		ID: idZoneLabelInvalid, Severity: finding.Error, Type: field.ErrorTypeInvalid, Field: labelField(key), Value: value,
		Message: err.Error(), Remedy: "write the volume's zones, such as eu-1a__eu-1b, or leave the label out and the cloud is asked",
	}
}

// The value that was overwritten is not repeated: nobody has validated it.
func overwrittenLabel(key, value string) finding.Finding {
	return finding.Finding{
		ID: idLabelOverwritten, Severity: finding.Warning, Field: labelField(key),
		Message: fmt.Sprintf("must be %q, as the cloud says; the value was replaced", value),
		Remedy:  "correct the manifest, or leave the label out",
	}
}

func labelField(key string) string { return field.NewPath("metadata", "labels").Key(key).String() }
