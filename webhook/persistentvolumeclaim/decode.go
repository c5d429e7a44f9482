package persistentvolumeclaim

import (
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/volume"
	"quaymaster.dev/webhook"
)

const kind = "PersistentVolumeClaim"

// Resource is what the webhooks of this package serve.
func Resource() metav1.GroupVersionResource {
	return metav1.GroupVersionResource{Group: corev1.GroupName, Version: "v1", Resource: "persistentvolumeclaims"}
}

// decodePair reads the claims of a request: the old one is nil on creation, both are nil on deletion.
func decodePair(req *admissionv1.AdmissionRequest) (oldPVC, newPVC *corev1.PersistentVolumeClaim, err error) {
	return webhook.DecodePair[corev1.PersistentVolumeClaim](req, corev1.SchemeGroupVersion.WithKind(kind))
}

// beingDeleted is true where admission has nothing more to say: finalizers must be able to go.
func beingDeleted(pvc *corev1.PersistentVolumeClaim) bool {
	return pvc == nil || pvc.DeletionTimestamp != nil
}

// grows is false on creation.
func grows(oldPVC, newPVC *corev1.PersistentVolumeClaim) bool {
	return oldPVC != nil && volume.Grows(oldPVC, newPVC)
}
