package audit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/volume"
)

// claims are judged where they ask for more than they have: that is a growth whose conditions can still be looked at.
func (a *audit) claims(ctx context.Context) error {
	classes := map[string]*storagev1.StorageClass{}
	err := each(ctx, a, "storageclasses.storage.k8s.io", a.API.StorageV1().StorageClasses().List, func(class *storagev1.StorageClass) {
		classes[class.Name] = class
	})
	if err != nil {
		return err
	}
	return each(ctx, a, "persistentvolumeclaims", a.API.CoreV1().PersistentVolumeClaims(a.Namespace).List, func(pvc *corev1.PersistentVolumeClaim) {
		if pvc.DeletionTimestamp == nil {
			a.add("PersistentVolumeClaim", pvc.ObjectMeta, growing(pvc, classes))
		}
	})
}

func growing(pvc *corev1.PersistentVolumeClaim, classes map[string]*storagev1.StorageClass) []finding.Finding {
	had := pvc.DeepCopy()
	had.Spec.Resources.Requests = pvc.Status.Capacity
	if pvc.Status.Phase != corev1.ClaimBound || !volume.Grows(had, pvc) {
		return nil
	}
	findings := volume.ExplainClaim(had, pvc)
	if name := volume.ClassOf(pvc); name != "" {
		findings = append(findings, volume.ExplainClass(pvc, classes[name])...)
	}
	return findings
}
