package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

const reviewKind = "AdmissionReview"

// decodeReview decodes an AdmissionReview with the same JSON rules as the API server (names are case-sensitive) and
// validates that it is about the resource, or about the subresource of it that is also served, if any.
func decodeReview(
	body []byte, resource metav1.GroupVersionResource, subresource string,
) (*admissionv1.AdmissionRequest, error) {
	var review admissionv1.AdmissionReview
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &review); err != nil {
		return nil, fmt.Errorf("body must be an AdmissionReview in JSON: %w", err)
	}
	if version := admissionv1.SchemeGroupVersion.String(); review.APIVersion != version || review.Kind != reviewKind {
		return nil, fmt.Errorf("body must have apiVersion %q and kind %q; got apiVersion %q and kind %q",
			version, reviewKind, review.APIVersion, review.Kind)
	}
	req := review.Request
	switch {
	case req == nil:
		return nil, errors.New("request is missing")
	case req.UID == "":
		return nil, errors.New("request.uid is missing")
	case req.Resource != resource || req.SubResource != "" && req.SubResource != subresource:
		return nil, fmt.Errorf("request.resource must be %s on this path; got %s",
			resourceName(resource, ""), resourceName(req.Resource, req.SubResource))
	}
	switch req.Operation {
	case admissionv1.Create, admissionv1.Update, admissionv1.Delete:
		return req, nil
	default:
		return nil, fmt.Errorf("request.operation must be CREATE, UPDATE or DELETE; got %q", req.Operation)
	}
}

// encodeReview returns the body with the response.
func encodeReview(response *admissionv1.AdmissionResponse) ([]byte, error) {
	return json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: reviewKind},
		Response: response,
	})
}

// resourceName returns the resource as kubectl writes it, such as services.v1 or nodes.v1/status.
func resourceName(r metav1.GroupVersionResource, subresource string) string {
	name := strings.TrimSuffix(r.Resource+"."+r.Version+"."+r.Group, ".")
	if subresource != "" {
		name += "/" + subresource
	}
	return name
}
