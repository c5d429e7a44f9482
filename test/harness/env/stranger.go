package env

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Ask sends a request as a client without any rights, which need not be an API server, and returns the answer. An update
// has an old object. resource is the plural name of the kind.
func (w *Webhook) Ask(
	ctx context.Context, path string, kind schema.GroupVersionKind, resource, namespace string, oldObject, object any,
) (*admissionv1.AdmissionResponse, error) {
	gvr := metav1.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: resource}
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "stranger", Kind: metav1.GroupVersionKind(kind), Resource: gvr, Namespace: namespace,
			Operation: admissionv1.Create,
		},
	}
	review.Request.RequestKind, review.Request.RequestResource = &review.Request.Kind, &gvr
	var err error
	if review.Request.Object.Raw, err = json.Marshal(object); err != nil {
		return nil, err
	}
	if oldObject != nil {
		review.Request.Operation = admissionv1.Update
		if review.Request.OldObject.Raw, err = json.Marshal(oldObject); err != nil {
			return nil, err
		}
	}
	body, err := json.Marshal(review)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+w.Address+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	//nolint:gosec // It does not care whom it asks.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer := admissionv1.AdmissionReview{}
	err = json.NewDecoder(response.Body).Decode(&answer)
	if err != nil || answer.Response == nil || response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %s, %w", response.Status, err)
	}
	return answer.Response, nil
}
