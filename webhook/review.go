package webhook

import (
	"errors"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"quaymaster.dev/internal/jsonreader"
)

const (
	reviewKind    = "AdmissionReview"
	reviewVersion = "admission.k8s.io/v1"
)

// readReview reads an AdmissionReview by the rules of the API server, and validates that it is about the resource, or
// about the subresource of it that is also served, if any. The request lacks the fields that admission does not use. Its
// raw objects are parts of the body.
func (h *Handler) readReview(body []byte) (*admissionv1.AdmissionRequest, error) {
	var kind metav1.TypeMeta
	var req *admissionv1.AdmissionRequest
	if err := jsonreader.Read(body, func(r *jsonreader.Reader) { kind, req = h.review(r) }); err != nil {
		return nil, fmt.Errorf("body must be an AdmissionReview in JSON: %w", err)
	}
	if kind.APIVersion != reviewVersion || kind.Kind != reviewKind {
		return nil, fmt.Errorf("body must have apiVersion %q and kind %q; got apiVersion %q and kind %q",
			reviewVersion, reviewKind, kind.APIVersion, kind.Kind)
	}
	resource, subresource := h.o.Resource, h.o.Subresource
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

func (h *Handler) review(r *jsonreader.Reader) (kind metav1.TypeMeta, req *admissionv1.AdmissionRequest) {
	for name := range r.Members() {
		switch name {
		case "apiVersion":
			jsonreader.String(r, &kind.APIVersion)
		case "kind":
			jsonreader.String(r, &kind.Kind)
		case "request":
			jsonreader.Pointer(r, &req, h.request)
		default:
			r.Skip()
		}
	}
	return kind, req
}

func (h *Handler) request(r *jsonreader.Reader, req *admissionv1.AdmissionRequest) {
	for name := range r.Members() {
		switch name {
		case "uid":
			jsonreader.String(r, &req.UID)
		case "resource":
			readResource(r, &req.Resource)
		case "subResource":
			jsonreader.String(r, &req.SubResource)
		case "name":
			jsonreader.String(r, &req.Name)
		case "namespace":
			jsonreader.String(r, &req.Namespace)
		case "operation":
			jsonreader.String(r, &req.Operation)
		case "userInfo":
			readUser(r, &req.UserInfo)
		case "dryRun":
			jsonreader.Pointer(r, &req.DryRun, jsonreader.Bool)
		case "object":
			h.object(r, &req.Object)
		case "oldObject":
			h.object(r, &req.OldObject)
		default:
			r.Skip()
		}
	}
}

func readResource(r *jsonreader.Reader, resource *metav1.GroupVersionResource) {
	for name := range r.Members() {
		switch name {
		case "group":
			jsonreader.String(r, &resource.Group)
		case "version":
			jsonreader.String(r, &resource.Version)
		case "resource":
			jsonreader.String(r, &resource.Resource)
		default:
			r.Skip()
		}
	}
}

func readUser(r *jsonreader.Reader, user *authenticationv1.UserInfo) {
	for name := range r.Members() {
		if name == "username" {
			jsonreader.String(r, &user.Username)
		} else {
			r.Skip()
		}
	}
}

// object reads an object of the request; null means that there is none. If its type is wrong, the Admitter gets only
// the raw object, and reports that if the object matters.
func (h *Handler) object(r *jsonreader.Reader, into *runtime.RawExtension) {
	*into = runtime.RawExtension{}
	if r.Null() {
		return
	}
	into.Raw = r.Raw(func() {
		if h.reader == nil {
			r.Skip()
			return
		}
		var object runtime.Object
		if err := r.Apart(func() { object = h.reader.ReadObject(r) }); err == nil {
			into.Object = object
		}
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
