package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/review"
	"quaymaster.dev/webhook/stream"
)

const (
	reviewKind    = "AdmissionReview"
	reviewVersion = "admission.k8s.io/v1"
)

// read reads an AdmissionReview by the rules of the API server while its body arrives. The request lacks the fields that
// admission does not use. If it is beyond a limit, read returns the limit and what is known of the request.
func (h *Handler) read(
	ctx context.Context, held *place, w http.ResponseWriter, r *http.Request,
) (*admissionv1.AdmissionRequest, *stream.LimitError, *httpFailure) {
	in := stream.Input{Reader: r.Body, Short: r.ContentLength >= 0 && r.ContentLength <= stream.ShortBytes}
	if r.ContentLength < 0 {
		in.Reader = http.MaxBytesReader(w, r.Body, maxBodyBytes)
	}
	if !in.Short {
		in.Large = func() error {
			if !held.enlarge(ctx) {
				return errOverloaded
			}
			// The deadline for the body may have passed while the request was waiting. From now on, others wait for it.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.o.Timeout / 2))
			return nil
		}
	}
	var kind metav1.TypeMeta
	var req *admissionv1.AdmissionRequest
	err := stream.Read(in, func(s *stream.Reader) {
		kind, req = h.review(s)
		if s.Kept() <= stream.ShortBytes {
			held.shrink()
		}
	})
	excess, exceeded := errors.AsType[*stream.LimitError](err)
	if err != nil && !exceeded {
		return nil, nil, unreadable(err)
	}
	if err := h.check(kind, req); err != nil {
		if exceeded {
			return nil, nil, tooLarge()
		}
		return nil, nil, badRequest(err)
	}
	if exceeded {
		// A client that is still sending when the connection is closed may not see the answer.
		if _, err := io.Copy(io.Discard, in.Reader); err != nil {
			return nil, nil, unreadable(err)
		}
	}
	return req, excess, nil
}

var errOverloaded = errors.New("too many large requests")

// unreadable returns the response to a body that cannot be read.
func unreadable(err error) *httpFailure {
	_, tooLong := errors.AsType[*http.MaxBytesError](err)
	switch {
	case tooLong:
		return tooLarge()
	case errors.Is(err, errOverloaded):
		return overloaded()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &httpFailure{
			status: http.StatusRequestTimeout, problem: "body did not arrive within the timeout",
		}
	}
	return badRequest(fmt.Errorf("body must be an AdmissionReview in JSON: %w", err))
}

// check validates that a request is about the resource, or about the subresource of it that is also served, if any.
func (h *Handler) check(kind metav1.TypeMeta, req *admissionv1.AdmissionRequest) error {
	resource, subresource := h.o.Resource, h.o.Subresource
	switch {
	case kind.APIVersion != reviewVersion || kind.Kind != reviewKind:
		return fmt.Errorf("body must have apiVersion %q and kind %q; got apiVersion %q and kind %q",
			reviewVersion, reviewKind, kind.APIVersion, kind.Kind)
	case req == nil:
		return errors.New("request is missing")
	case req.UID == "":
		return errors.New("request.uid is missing")
	case req.Resource != resource || req.SubResource != "" && req.SubResource != subresource:
		return fmt.Errorf("request.resource must be %s on this path; got %s",
			resourceName(resource, ""), resourceName(req.Resource, req.SubResource))
	}
	switch req.Operation {
	case admissionv1.Create, admissionv1.Update, admissionv1.Delete:
		return nil
	default:
		return fmt.Errorf("request.operation must be CREATE, UPDATE or DELETE; got %q", req.Operation)
	}
}

// refuse returns the response to a request beyond a limit. Deletions are allowed: finalizers must be removable.
func (h *Handler) refuse(req *admissionv1.AdmissionRequest, excess *stream.LimitError) *admissionv1.AdmissionResponse {
	object, _ := req.Object.Object.(Object)
	if req.Operation == admissionv1.Delete || object != nil && object.GetDeletionTimestamp() != nil {
		return Allow()
	}
	kind, name := schema.GroupKind{}, req.Name
	if object != nil {
		kind = object.GetObjectKind().GroupVersionKind().GroupKind()
		name = cmp.Or(name, object.GetGenerateName())
	}
	return Respond(kind, name, []finding.Finding{{
		ID: review.IDTooLarge, Severity: finding.Error, Type: field.ErrorTypeTooLong, Field: excess.Field,
		Message: excess.Message, Remedy: excess.Remedy,
	}}, func(f finding.Finding) { h.o.Metrics.CountFinding(h.o.Name, f.ID, string(f.Severity)) })
}

func (h *Handler) review(r *stream.Reader) (kind metav1.TypeMeta, req *admissionv1.AdmissionRequest) {
	for name := range r.Members() {
		switch string(name) {
		case "apiVersion":
			stream.String(r, &kind.APIVersion)
		case "kind":
			stream.String(r, &kind.Kind)
		case "request":
			stream.Pointer(r, &req, h.request)
		default:
			r.Skip()
		}
	}
	return kind, req
}

func (h *Handler) request(r *stream.Reader, req *admissionv1.AdmissionRequest) {
	for name := range r.Members() {
		switch string(name) {
		case "uid":
			stream.String(r, &req.UID)
		case "resource":
			readResource(r, &req.Resource)
		case "subResource":
			stream.String(r, &req.SubResource)
		case "name":
			stream.String(r, &req.Name)
		case "namespace":
			stream.String(r, &req.Namespace)
		case "operation":
			stream.String(r, &req.Operation)
		case "userInfo":
			readUser(r, &req.UserInfo)
		case "dryRun":
			stream.Pointer(r, &req.DryRun, stream.Bool)
		case "object":
			h.object(r, req, &req.Object)
		case "oldObject":
			h.object(r, req, &req.OldObject)
		default:
			r.Skip()
		}
	}
}

func readResource(r *stream.Reader, resource *metav1.GroupVersionResource) {
	for name := range r.Members() {
		switch string(name) {
		case "group":
			stream.String(r, &resource.Group)
		case "version":
			stream.String(r, &resource.Version)
		case "resource":
			stream.String(r, &resource.Resource)
		default:
			r.Skip()
		}
	}
}

func readUser(r *stream.Reader, user *authenticationv1.UserInfo) {
	for name := range r.Members() {
		if string(name) == "username" {
			stream.String(r, &user.Username)
		} else {
			r.Skip()
		}
	}
}

// object reads an object of the request; null means that there is none. On deletion, it does not matter.
func (h *Handler) object(r *stream.Reader, req *admissionv1.AdmissionRequest, into *runtime.RawExtension) {
	switch {
	case r.Null():
	case h.reader == nil || req.Operation == admissionv1.Delete:
		r.Skip()
	default:
		if err := r.Apart(func() { into.Object = h.reader.ReadObject(r) }); err != nil {
			into.Object = &malformed{problem: err}
		}
	}
}

// malformed stands for an object with a value of the wrong type. The Admitter reports that if the object matters.
type malformed struct {
	runtime.Unknown

	problem error
}

// resourceName returns the resource as kubectl writes it, such as services.v1 or nodes.v1/status.
func resourceName(r metav1.GroupVersionResource, subresource string) string {
	name := strings.TrimSuffix(r.Resource+"."+r.Version+"."+r.Group, ".")
	if subresource != "" {
		name += "/" + subresource
	}
	return name
}
