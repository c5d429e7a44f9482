package volume

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/finding"
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

// GrowthRules documents every finding about the growth of PersistentVolumeClaims.
func GrowthDocs() []finding.Doc {
	return []finding.Doc{
		{ID: idOverMaximum, Severity: finding.Error, Help: "The claim grows beyond the largest size of its volume type in the cloud, so the expansion could only fail. The type is the parameter type of the StorageClass."},
		{ID: idAttached, Severity: finding.Error, Help: "The claim's volume is attached to an instance, and its type cannot grow in use."},
		{ID: idOffStep, Severity: finding.Warning, Help: "The cloud rounds sizes up to a multiple of the volume type's step, so the volume becomes larger than the claim asks for."},
		{ID: idTypeUnknown, Severity: finding.Warning, Help: "The parameter type of the StorageClass names no volume type of the cloud."},
		{ID: idNotBound, Severity: finding.Warning, Help: "The API server lets only bound claims grow."},
		{ID: idNoClass, Severity: finding.Warning, Help: "The API server lets only claims with a StorageClass grow."},
		{ID: idClassChanged, Severity: finding.Warning, Help: "The API server does not let a claim grow in the update that changes its StorageClass."},
		{ID: idClassNotFound, Severity: finding.Warning, Help: "The claim's StorageClass does not exist, and the API server lets a claim grow only if one says so."},
		{ID: idClassNotExpandable, Severity: finding.Warning, Help: "The claim's StorageClass does not have allowVolumeExpansion: true, without which the API server lets no claim grow."},
		{ID: idCannotGrowLater, Severity: finding.Warning, Help: "A new claim's StorageClass does not have allowVolumeExpansion: true, so the claim keeps the size that it asks for now."},
		{ID: idCreatedOverMaximum, Severity: finding.Warning, Help: "A new claim asks for more than the largest size of its volume type, so no volume will be made for it."},
		{ID: idClassUnavailable, Severity: finding.Warning, Help: "The claim's StorageClass cannot be read at the moment, so nothing was checked against it. If the mutating webhook has said so, the validating one only counts it."},
		{ID: idLimitsUnavailable, Severity: finding.Warning, Help: "The cloud gave no usable answer in time, so the claim is admitted without the check against its limits."},
	}
}

// ClassUnavailable is the finding when the claim's class cannot be read, which is nobody's mistake who reads it.
func ClassUnavailable(pvc *corev1.PersistentVolumeClaim) finding.Finding {
	return finding.Finding{
		ID: idClassUnavailable, Severity: finding.Warning, Field: classField(pvc),
		Message: fmt.Sprintf("the claim was not checked against StorageClass %s, which cannot be read at the moment", ClassOf(pvc)),
		Remedy:  "the claim's Events say later what is wrong, if anything is",
	}
}

// LimitsUnavailable is the finding when the cloud cannot say what the limits of the claim's volume are.
func LimitsUnavailable(pvc *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) finding.Finding {
	return finding.Finding{
		ID: idLimitsUnavailable, Severity: finding.Warning, Field: requestField(),
		Message: fmt.Sprintf("%s was not checked against the limits of %s, because the cloud does not answer at the moment",
			requestText(pvc), typeText(class)),
		Remedy: "the claim's Events say later what is wrong, if anything is",
	}
}

func typeUnknown(pvc *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) finding.Finding {
	return finding.Finding{
		ID: idTypeUnknown, Severity: finding.Warning, Field: classField(pvc),
		Message: fmt.Sprintf("the cloud must have %s; there is none of this name, so its limits are not known", typeText(class)),
		Remedy:  "a cluster administrator can make the class anew",
	}
}

func overMaximum(g Growth) finding.Finding {
	return finding.Finding{
		ID: idOverMaximum, Severity: finding.Error, Type: field.ErrorTypeInvalid, Field: requestField(), Value: requestText(g.New),
		Message: fmt.Sprintf("must be at most %dGi, the maximum of %s; the claim has %s", g.Type.MaxSizeGiB, typeText(g.Class), currentText(g.Old)),
		Remedy:  "request less, or move the data to a claim of another StorageClass",
	}
}

func attached(g Growth) finding.Finding {
	return finding.Finding{
		ID: idAttached, Severity: finding.Error, Type: field.ErrorTypeInvalid, Field: requestField(), Value: requestText(g.New),
		Message: fmt.Sprintf("must not grow from %s while volume %s is attached to instance %s: %s has no online expansion",
			currentText(g.Old), g.Attachment.VolumeID, g.Attachment.Instance, typeText(g.Class)),
		Remedy: "stop the pods that use the claim, wait until the volume is detached, then grow it",
	}
}

func offStep(g Growth, result int64) finding.Finding {
	return finding.Finding{
		ID: idOffStep, Severity: finding.Warning, Field: requestField(),
		Message: fmt.Sprintf("%s becomes %dGi: sizes of %s are multiples of %dGi, up to %dGi",
			requestText(g.New), result, typeText(g.Class), g.Type.StepGiB, g.Type.MaxSizeGiB),
		Remedy: fmt.Sprintf("request %dGi to see what you get", result),
	}
}

func createdOverMaximum(pvc *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, t *Type) finding.Finding {
	return finding.Finding{
		ID: idCreatedOverMaximum, Severity: finding.Warning, Field: requestField(),
		Message: fmt.Sprintf("%s must be at most %dGi, the maximum of %s, for a volume to be made", requestText(pvc), t.MaxSizeGiB, typeText(class)),
		Remedy:  "request less, or use another StorageClass",
	}
}

// requestField is where a claim asks for its size.
func requestField() string {
	return field.NewPath("spec", "resources", "requests").Key(string(corev1.ResourceStorage)).String()
}

func requestText(pvc *corev1.PersistentVolumeClaim) string {
	return quantityText(pvc.Spec.Resources.Requests)
}

// currentText is the size that a claim has, or asked for if it has none yet.
func currentText(pvc *corev1.PersistentVolumeClaim) string {
	if bytesOf(pvc.Status.Capacity[corev1.ResourceStorage]) > 0 {
		return quantityText(pvc.Status.Capacity)
	}
	return requestText(pvc)
}

// quantityText cuts what is no sensible size: a number may have as many digits as a request has bytes.
func quantityText(list corev1.ResourceList) string {
	const longest = 32
	text := list.Storage().String()
	if len(text) > longest {
		return text[:longest] + "…"
	}
	return text
}

// typeText names a type, and where the name stands.
func typeText(class *storagev1.StorageClass) string {
	return fmt.Sprintf("volume type %s (parameter %s of StorageClass %s)", class.Parameters[typeParameter], typeParameter, class.Name)
}
