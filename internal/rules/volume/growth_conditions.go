package volume

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/rules/finding"
)

// ClassOf returns the name of a claim's StorageClass; empty if it has none. The beta annotation takes precedence over
// the field.
func ClassOf(pvc *corev1.PersistentVolumeClaim) string {
	if class, found := pvc.Annotations[corev1.BetaStorageClassAnnotation]; found {
		return class
	}
	if pvc.Spec.StorageClassName == nil {
		return ""
	}
	return *pvc.Spec.StorageClassName
}

// classField returns the path of the annotation or field that names the claim's class.
func classField(pvc *corev1.PersistentVolumeClaim) string {
	if _, found := pvc.Annotations[corev1.BetaStorageClassAnnotation]; found {
		return field.NewPath("metadata", "annotations").Key(corev1.BetaStorageClassAnnotation).String()
	}
	return field.NewPath("spec", "storageClassName").String()
}

// ExplainClaim returns the conditions for growth that the claim itself does not meet. They are those of the API
// server's admission plugin PersistentVolumeClaimResize, which denies the update without naming the condition.
func ExplainClaim(oldPVC, newPVC *corev1.PersistentVolumeClaim) []finding.Finding {
	var findings []finding.Finding
	if oldPVC.Status.Phase != corev1.ClaimBound {
		findings = append(findings, notBound(oldPVC))
	}
	switch before, after := ClassOf(oldPVC), ClassOf(newPVC); {
	case before != after:
		findings = append(findings, classChanged(oldPVC, newPVC))
	case after == "":
		findings = append(findings, noClass(newPVC))
	}
	return finding.Merge(findings)
}

// ExplainClass returns the condition for growth that a claim's class does not meet; class is nil if it does not exist.
// For a claim without a class, call only ExplainClaim.
func ExplainClass(pvc *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) []finding.Finding {
	switch {
	case class == nil:
		return []finding.Finding{classNotFound(pvc)}
	case !expandable(class):
		return []finding.Finding{classNotExpandable(pvc, class)}
	}
	return nil
}

func expandable(class *storagev1.StorageClass) bool {
	return class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion
}

func notBound(pvc *corev1.PersistentVolumeClaim) finding.Finding {
	f := finding.Finding{
		ID: idNotBound, Severity: finding.Warning, Field: field.NewPath("status", "phase").String(),
		Message: fmt.Sprintf("must be \"Bound\" for the claim to grow; got %q", pvc.Status.Phase),
		Remedy:  "retry when the claim is bound",
	}
	if pvc.Status.Phase == corev1.ClaimLost {
		f.Remedy = "the volume of the claim is lost; create a new claim"
	}
	return f
}

func noClass(pvc *corev1.PersistentVolumeClaim) finding.Finding {
	return finding.Finding{
		ID: idNoClass, Severity: finding.Warning, Field: classField(pvc),
		Message: "must name a StorageClass for the claim to grow",
		Remedy:  "copy the data to a claim whose StorageClass has allowVolumeExpansion: true",
	}
}

func classChanged(oldPVC, newPVC *corev1.PersistentVolumeClaim) finding.Finding {
	before, after := ClassOf(oldPVC), ClassOf(newPVC)
	f := finding.Finding{
		ID: idClassChanged, Severity: finding.Warning, Field: classField(newPVC),
		Message: fmt.Sprintf("must remain %q in an update that grows the claim; got %q", before, after),
		Remedy:  "keep the StorageClass",
	}
	if before == "" {
		f.Remedy = "set the StorageClass first, then grow the claim in a second update"
	}
	return f
}

func classNotFound(pvc *corev1.PersistentVolumeClaim) finding.Finding {
	return finding.Finding{
		ID: idClassNotFound, Severity: finding.Warning, Field: classField(pvc),
		Message: fmt.Sprintf("StorageClass %q does not exist, so the claim cannot grow", ClassOf(pvc)),
		Remedy:  "ask a cluster administrator to create it with allowVolumeExpansion: true",
	}
}

func classNotExpandable(pvc *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) finding.Finding {
	return finding.Finding{
		ID: idClassNotExpandable, Severity: finding.Warning, Field: classField(pvc),
		Message: fmt.Sprintf("StorageClass %q must have allowVolumeExpansion: true for the claim to grow", class.Name),
		Remedy:  fmt.Sprintf("ask a cluster administrator to set it if driver %q can expand volumes", class.Provisioner),
	}
}

func cannotGrowLater(pvc *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) finding.Finding {
	return finding.Finding{
		ID: idCannotGrowLater, Severity: finding.Warning, Field: classField(pvc),
		Message: fmt.Sprintf("StorageClass %q does not have allowVolumeExpansion: true, so the claim cannot grow later",
			class.Name),
		Remedy: "request the largest size that the claim will need, or use a different StorageClass",
	}
}
