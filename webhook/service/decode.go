package service

import (
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/webhook"
)

// Resource is what the webhooks of this package serve.
func Resource() metav1.GroupVersionResource {
	return metav1.GroupVersionResource{Group: corev1.GroupName, Version: "v1", Resource: "services"}
}

// decodePair reads the Services of a request: the old one is nil on creation, both are nil on deletion.
func decodePair(req *admissionv1.AdmissionRequest) (oldSvc, newSvc *corev1.Service, err error) {
	return webhook.DecodePair[corev1.Service](req, corev1.SchemeGroupVersion.WithKind(kind))
}

// beingDeleted is true where admission has nothing more to say: finalizers must be able to go.
func beingDeleted(svc *corev1.Service) bool { return svc == nil || svc.DeletionTimestamp != nil }
