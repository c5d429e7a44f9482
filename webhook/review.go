package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

const (
	reviewKind    = "AdmissionReview"
	reviewVersion = "admission.k8s.io/v1"
)

// admissionReview is the part of an AdmissionReview that admission uses.
type admissionReview struct {
	metav1.TypeMeta `json:",inline"`
	Request         *admissionRequest `json:"request"`
}

type admissionRequest struct {
	UID         types.UID                   `json:"uid"`
	Resource    metav1.GroupVersionResource `json:"resource"`
	SubResource string                      `json:"subResource"`
	Name        string                      `json:"name"`
	Namespace   string                      `json:"namespace"`
	Operation   admissionv1.Operation       `json:"operation"`
	UserInfo    struct {
		Username string `json:"username"`
	} `json:"userInfo"`
	DryRun    *bool          `json:"dryRun"`
	Object    jsontext.Value `json:"object"`
	OldObject jsontext.Value `json:"oldObject"`
}

// decodeReview decodes an AdmissionReview by the rules of the API server, and validates that it is about the resource,
// or about the subresource of it that is also served, if any. The request lacks the fields that admission does not use.
func decodeReview(
	body []byte, resource metav1.GroupVersionResource, subresource string,
) (*admissionv1.AdmissionRequest, error) {
	var review admissionReview
	if err := unmarshal(body, &review); err != nil {
		return nil, fmt.Errorf("body must be an AdmissionReview in JSON: %w", err)
	}
	if review.APIVersion != reviewVersion || review.Kind != reviewKind {
		return nil, fmt.Errorf("body must have apiVersion %q and kind %q; got apiVersion %q and kind %q",
			reviewVersion, reviewKind, review.APIVersion, review.Kind)
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
		return &admissionv1.AdmissionRequest{
			UID: req.UID, Resource: req.Resource, SubResource: req.SubResource, Name: req.Name, Namespace: req.Namespace,
			Operation: req.Operation, UserInfo: authenticationv1.UserInfo{Username: req.UserInfo.Username},
			DryRun: req.DryRun, Object: rawObject(req.Object), OldObject: rawObject(req.OldObject),
		}, nil
	default:
		return nil, fmt.Errorf("request.operation must be CREATE, UPDATE or DELETE; got %q", req.Operation)
	}
}

// rawObject returns an object as it was sent; null means that there is none.
func rawObject(value jsontext.Value) runtime.RawExtension {
	if value.Kind() == jsontext.KindNull {
		return runtime.RawExtension{}
	}
	return runtime.RawExtension{Raw: value}
}

// encodeReview returns the body with the response.
func encodeReview(response *admissionv1.AdmissionResponse) ([]byte, error) {
	if body, plain := encodeAllowed(response); plain {
		return body, nil
	}
	return json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: reviewVersion, Kind: reviewKind},
		Response: response,
	})
}

// encodeAllowed returns the body with a response that only allows a request, which most do, without reflection.
func encodeAllowed(response *admissionv1.AdmissionResponse) (body []byte, plain bool) {
	if !response.Allowed || response.Result != nil || len(response.Patch) > 0 || response.PatchType != nil ||
		len(response.Warnings) > 0 || len(response.AuditAnnotations) > 0 {
		return nil, false
	}
	const head, tail = `{"kind":"` + reviewKind + `","apiVersion":"` + reviewVersion + `","response":{"uid":`, `,"allowed":true}}`
	body = append(make([]byte, 0, len(head)+len(tail)+len(response.UID)+2), head...)
	body, err := jsontext.AppendQuote(body, response.UID)
	return append(body, tail...), err == nil
}

// resourceName returns the resource as kubectl writes it, such as services.v1 or nodes.v1/status.
func resourceName(r metav1.GroupVersionResource, subresource string) string {
	name := strings.TrimSuffix(r.Resource+"."+r.Version+"."+r.Group, ".")
	if subresource != "" {
		name += "/" + subresource
	}
	return name
}
