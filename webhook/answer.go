package webhook

import (
	"encoding/json"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// encodeReview returns the body with the response.
func encodeReview(response *admissionv1.AdmissionResponse) ([]byte, error) {
	return json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{Kind: reviewKind, APIVersion: reviewVersion}, Response: response,
	})
}
