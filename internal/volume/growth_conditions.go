package volume

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/finding"
)

// ClassOf is the name of a claim's StorageClass, which its beta annotation wins over its field to give; empty if it has none.
func ClassOf(pvc *corev1.PersistentVolumeClaim) string {
	if class, found := pvc.Annotations[corev1.BetaStorageClassAnnotation]; found {
		return class
	}
	if pvc.Spec.StorageClassName == nil {
		return ""
	}
	return *pvc.Spec.StorageClassName
}

// classField is where the claim names its class.
func classField(pvc *corev1.PersistentVolumeClaim) string {
	if _, found := pvc.Annotations[corev1.BetaStorageClassAnnotation]; found {
		return field.NewPath("metadata", "annotations").Key(corev1.BetaStorageClassAnnotation).String()
	}
	return field.NewPath("spec", "storageClassName").String()
}

// ExplainClaim names the conditions for growth that a claim itself fails. They are those of the API server's plugin
// PersistentVolumeClaimResize, which refuses without saying which.
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

// ExplainClass names the condition for growth that a claim's class fails; it is nil if there is none of the name. A claim without
// class is for ExplainClaim alone.
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
		Message: fmt.Sprintf("must be Bound for the claim to grow; got %q", pvc.Status.Phase),
		Remedy:  "grow the claim when it is bound",
	}
	if pvc.Status.Phase == corev1.ClaimLost {
		f.Remedy = "its volume is gone: create a new claim"
	}
	return f
}

func noClass(pvc *corev1.PersistentVolumeClaim) finding.Finding {
	return finding.Finding{
		ID: idNoClass, Severity: finding.Warning, Field: classField(pvc),
		Message: "must name a StorageClass for the claim to grow; the claim has none",
		Remedy:  "copy the data to a claim whose class has allowVolumeExpansion: true",
	}
}

func classChanged(oldPVC, newPVC *corev1.PersistentVolumeClaim) finding.Finding {
	before, after := ClassOf(oldPVC), ClassOf(newPVC)
	f := finding.Finding{
		ID: idClassChanged, Severity: finding.Warning, Field: classField(newPVC),
		Message: fmt.Sprintf("must stay %q in an update that grows the claim; got %q", before, after),
		Remedy:  "leave the class as it is",
	}
	if before == "" {
		f.Remedy = "set the class first, and grow the claim in a second update"
	}
	return f
}

func classNotFound(pvc *corev1.PersistentVolumeClaim) finding.Finding {
	return finding.Finding{
		ID: idClassNotFound, Severity: finding.Warning, Field: classField(pvc),
		Message: fmt.Sprintf("StorageClass %s must exist for the claim to grow; there is none of this name", ClassOf(pvc)),
		Remedy:  "a cluster administrator can create it with allowVolumeExpansion: true",
	}
}

func classNotExpandable(pvc *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) finding.Finding {
	return finding.Finding{
		ID: idClassNotExpandable, Severity: finding.Warning, Field: classField(pvc),
		Message: fmt.Sprintf("StorageClass %s must have allowVolumeExpansion: true for the claim to grow", class.Name),
		Remedy:  "a cluster administrator can set it, if the driver " + class.Provisioner + " can expand volumes",
	}
}

func cannotGrowLater(pvc *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) finding.Finding {
	return finding.Finding{
		ID: idCannotGrowLater, Severity: finding.Warning, Field: classField(pvc),
		Message: fmt.Sprintf("StorageClass %s does not have allowVolumeExpansion: true, so the claim cannot grow later", class.Name),
		Remedy:  "request what it will ever need, or use another class",
	}
}
