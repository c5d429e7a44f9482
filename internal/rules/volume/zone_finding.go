package volume

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/rules/finding"
)

// Ids of the findings about zones. They are stable: docs, metrics and suppressions refer to them.
const (
	idZoneLabelInvalid = "pv-zone-label-invalid"
	idLabelOverwritten = "pv-label-overwritten"
	idVolumeNotFound   = "pv-volume-not-found"
	idZoneUnavailable  = "pv-zone-unavailable"
)

const volumeHandle = "spec.csi.volumeHandle"

// NotFound returns the finding for a volume that does not exist in the cloud.
func NotFound(pv *corev1.PersistentVolume) finding.Finding {
	return finding.Finding{
		ID: idVolumeNotFound, Severity: finding.Error, Type: field.ErrorTypeNotFound,
		Field: volumeHandle, Value: pv.Spec.CSI.VolumeHandle,
		Message: "must be the id of an existing volume of the cloud", Remedy: "create the volume first, or correct the id",
	}
}

// ZoneUnavailable returns the finding for a cloud that does not return the volume's zones, which is not the user's
// mistake. completed is true if the controllers add the zones later.
func ZoneUnavailable(completed bool) finding.Finding {
	f := finding.Finding{
		ID: idZoneUnavailable, Severity: finding.Warning, Field: volumeHandle,
		Message: "zone labels and node affinity were not added because the cloud did not respond",
		Remedy:  "add them, or create the PersistentVolume again",
	}
	if completed {
		f.Remedy = "the controllers will add them later"
	}
	return f
}

func invalidZoneLabel(key, value string, err error) finding.Finding {
	return finding.Finding{
		ID: idZoneLabelInvalid, Severity: finding.Error, Type: field.ErrorTypeInvalid, Field: labelField(key), Value: value,
		Message: err.Error(),
		Remedy:  "set the volume's zones, such as \"eu-1a__eu-1b\", or remove the label to use those of the cloud",
	}
}

// overwrittenLabel does not repeat the value that was replaced, because it was never validated.
func overwrittenLabel(key, value string) finding.Finding {
	return finding.Finding{
		ID: idLabelOverwritten, Severity: finding.Warning, Field: labelField(key),
		Message: fmt.Sprintf("must match the cloud; the value was replaced by %q", value),
		Remedy:  "correct the manifest, or remove the label from it",
	}
}

func labelField(key string) string { return field.NewPath("metadata", "labels").Key(key).String() }
