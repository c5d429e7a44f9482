package volume

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/rules/finding"
)

// Ids of the findings about growth. They are stable: docs, metrics and suppressions refer to them.
const (
	idOverMaximum        = "pvc-over-maximum"
	idAttached           = "pvc-attached"
	idOffStep            = "pvc-off-step"
	idTypeUnknown        = "pvc-type-unknown"
	idNotBound           = "pvc-not-bound"
	idNoClass            = "pvc-no-class"
	idClassChanged       = "pvc-class-changed"
	idClassNotFound      = "pvc-class-not-found"
	idClassNotExpandable = "pvc-class-not-expandable"
	idCannotGrowLater    = "pvc-cannot-grow-later"
	idCreatedOverMaximum = "pvc-created-over-maximum"
	idClassUnavailable   = "pvc-class-unavailable"
	idLimitsUnavailable  = "pvc-limits-unavailable"
)

// ClassUnavailable returns the finding for a class that cannot be read, which is not the user's mistake.
func ClassUnavailable(pvc *corev1.PersistentVolumeClaim) finding.Finding {
	return finding.Finding{
		ID: idClassUnavailable, Severity: finding.Warning, Field: classField(pvc),
		Message: fmt.Sprintf("the claim was not validated because StorageClass %q is temporarily unavailable", ClassOf(pvc)),
		Remedy:  "check the claim's Events later",
	}
}

// LimitsUnavailable returns the finding for a cloud that does not return the limits of the claim's volume.
func LimitsUnavailable(pvc *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) finding.Finding {
	return finding.Finding{
		ID: idLimitsUnavailable, Severity: finding.Warning, Field: requestField(),
		Message: fmt.Sprintf("%q was not validated against the limits of %s because the cloud did not respond",
			requestText(pvc), typeText(class)),
		Remedy: "check the claim's Events later",
	}
}

func typeUnknown(pvc *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) finding.Finding {
	return finding.Finding{
		ID: idTypeUnknown, Severity: finding.Warning, Field: classField(pvc),
		Message: fmt.Sprintf("%s does not exist in the cloud, so its limits are unknown", typeText(class)),
		Remedy:  "ask a cluster administrator to recreate the StorageClass with a type that exists",
	}
}

func overMaximum(g Growth) finding.Finding {
	return finding.Finding{
		ID: idOverMaximum, Severity: finding.Error, Type: field.ErrorTypeInvalid,
		Field: requestField(), Value: requestText(g.New),
		Message: fmt.Sprintf("must be at most %dGi, the maximum of %s; the claim has %s",
			g.Type.MaxSizeGiB, typeText(g.Class), currentText(g.Old)),
		Remedy: "request less, or copy the data to a claim with a different StorageClass",
	}
}

func attached(g Growth) finding.Finding {
	return finding.Finding{
		ID: idAttached, Severity: finding.Error, Type: field.ErrorTypeInvalid,
		Field: requestField(), Value: requestText(g.New),
		Message: fmt.Sprintf("must not grow from %s while volume %q is attached to instance %q: volume type %q cannot grow online",
			currentText(g.Old), g.Attachment.VolumeID, g.Attachment.Instance, TypeOf(g.Class)),
		Remedy: "stop the claim's pods, then retry when the volume is detached",
	}
}

func offStep(g Growth, result int64) finding.Finding {
	return finding.Finding{
		ID: idOffStep, Severity: finding.Warning, Field: requestField(),
		Message: fmt.Sprintf("the volume will have %dGi instead of %s: sizes of %s are multiples of %dGi, up to %dGi",
			result, requestText(g.New), typeText(g.Class), g.Type.StepGiB, g.Type.MaxSizeGiB),
		Remedy: fmt.Sprintf("request %dGi", result),
	}
}

func createdOverMaximum(pvc *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, t *Type) finding.Finding {
	return finding.Finding{
		ID: idCreatedOverMaximum, Severity: finding.Warning, Field: requestField(),
		Message: fmt.Sprintf("%q exceeds %dGi, the maximum of %s, so no volume can be created",
			requestText(pvc), t.MaxSizeGiB, typeText(class)),
		Remedy: "request less, or use a different StorageClass",
	}
}

// requestField returns the path of the requested size.
func requestField() string {
	return field.NewPath("spec", "resources", "requests").Key(string(corev1.ResourceStorage)).String()
}

func requestText(pvc *corev1.PersistentVolumeClaim) string {
	return quantityText(pvc.Spec.Resources.Requests)
}

// currentText returns the size that a claim has, or the requested size if it has none yet.
func currentText(pvc *corev1.PersistentVolumeClaim) string {
	if bytesOf(pvc.Status.Capacity[corev1.ResourceStorage]) > 0 {
		return quantityText(pvc.Status.Capacity)
	}
	return requestText(pvc)
}

// quantityText truncates absurd sizes: a number may have as many digits as fit into a request.
func quantityText(list corev1.ResourceList) string {
	const limit = 32
	text := list.Storage().String()
	if len(text) > limit {
		return text[:limit] + "…"
	}
	return text
}

// typeText names the volume type and the StorageClass that refers to it.
func typeText(class *storagev1.StorageClass) string {
	return fmt.Sprintf("volume type %q of StorageClass %q", class.Parameters[typeParameter], class.Name)
}
