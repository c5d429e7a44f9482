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
	switch req.Operation {
	case admissionv1.Create:
		newSvc, err = decode("request.object", req.Object.Raw)
	case admissionv1.Update:
		if newSvc, err = decode("request.object", req.Object.Raw); err == nil {
			oldSvc, err = decode("request.oldObject", req.OldObject.Raw)
		}
	default:
		// A deletion has only the old Service, about which there is nothing to say.
	}
	return oldSvc, newSvc, err
}

func decode(field string, raw []byte) (*corev1.Service, error) {
	svc := &corev1.Service{}
	if err := webhook.Decode(field, raw, corev1.SchemeGroupVersion.WithKind(kind), svc); err != nil {
		return nil, err
	}
	return svc, nil
}

// beingDeleted is true where admission has nothing more to say: finalizers must be able to go.
func beingDeleted(svc *corev1.Service) bool { return svc == nil || svc.DeletionTimestamp != nil }
