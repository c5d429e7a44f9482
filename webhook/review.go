package webhook

import (
	"context"
	jsonv1 "encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/webhook/stream"
)

const (
	reviewKind    = "AdmissionReview"
	reviewVersion = "admission.k8s.io/v1"
)

// read reads an AdmissionReview by the rules of the API server while its body arrives. The request lacks the fields that
// admission does not use. If it is beyond a limit, read returns the limit and what is known of the request. held is nil for
// a short body.
func (h *Handler) read(
	ctx context.Context, held *share, w http.ResponseWriter, r *http.Request,
) (*request, *stream.LimitError, *httpFailure) {
	in := stream.Input{Reader: r.Body, Short: held == nil}
	if held != nil {
		if r.ContentLength < 0 {
			held.Reader = http.MaxBytesReader(w, r.Body, maxBodyBytes)
		}
		in.Reader = held
		in.Grow = func(n int) error {
			start := time.Now()
			if !held.grow(ctx, n) {
				return errOverloaded
			}
			if time.Since(start) > pollBudget {
				// The deadline for the body may have passed while the request was waiting.
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.o.Timeout / 2))
			}
			return nil
		}
	}
	review := admissionReview{Request: optional{decodable: h.o.Admitter.Decodable}}
	err := stream.Read(in, &review)
	req := review.Request.request
	excess, exceeded := errors.AsType[*stream.LimitError](err)
	if err != nil && !exceeded {
		return nil, nil, unreadable(err)
	}
	if err := h.check(review.TypeMeta, req); err != nil {
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
	if held != nil && kept(req) <= stream.ShortBytes {
		held.release()
	}
	return req, excess, nil
}

// kept returns about how much memory what was kept of a request needs.
func kept(req *request) int {
	size := len(req.UID) + len(req.Name) + len(req.Namespace) + len(req.UserInfo.Username)
	for _, object := range []Object{req.Object.object, req.OldObject.object} {
		if sized, ok := object.(interface{ Size() int }); ok {
			size += sized.Size()
		} else if object != nil {
			size += stream.ShortBytes + 1 // a policy, which waits for nothing
		}
	}
	return size
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
func (h *Handler) check(kind metav1.TypeMeta, req *request) error {
	resource, subresource := metav1.GroupVersionResource(h.o.Admitter.Resource), h.o.Subresource
	switch {
	case kind.APIVersion != reviewVersion || kind.Kind != reviewKind:
		return fmt.Errorf("body must have apiVersion %q and kind %q; got apiVersion %q and kind %q",
			reviewVersion, reviewKind, kind.APIVersion, kind.Kind)
	case req == nil:
		return errors.New("request is missing")
	case req.UID == "":
		return errors.New("request.uid is missing")
	case resource.Resource != "" && (req.Resource != resource || req.SubResource != "" && req.SubResource != subresource):
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
func (h *Handler) refuse(req *request, excess *stream.LimitError) *admissionv1.AdmissionResponse {
	object := req.Object.object
	if req.Operation == admissionv1.Delete || object != nil && object.GetDeletionTimestamp() != nil {
		return Allow()
	}
	if object == nil {
		object = &metav1.PartialObjectMetadata{}
	}
	if object.GetName() == "" {
		object.SetName(req.Name)
	}
	refused := &Request{New: object, handler: h}
	return refused.Respond([]finding.Finding{{
		ID: review.IDTooLarge, Severity: finding.Error, Type: field.ErrorTypeTooLong, Field: excess.Field,
		Message: excess.Message, Remedy: "make the object smaller: it cannot be validated",
	}})
}

// admissionReview has the fields of an AdmissionReview that are used.
type admissionReview struct {
	metav1.TypeMeta `json:",inline"`
	Request         optional `json:"request"`
}

// optional is a request, which is nil if there is none.
type optional struct {
	*request

	decodable func() Decodable
}

type request struct {
	UID         types.UID                   `json:"uid"`
	Resource    metav1.GroupVersionResource `json:"resource"`
	SubResource string                      `json:"subResource"`
	Name        string                      `json:"name"`
	Namespace   string                      `json:"namespace"`
	Operation   admissionv1.Operation       `json:"operation"`
	UserInfo    struct {
		Username string `json:"username"`
	} `json:"userInfo"`
	DryRun    *bool `json:"dryRun"`
	Object    slot  `json:"object"`
	OldObject slot  `json:"oldObject"`
}

// UnmarshalJSONFrom decodes the request.
func (o *optional) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() == 'n' {
		o.request = nil
		return d.SkipValue()
	}
	if o.request == nil {
		o.request = &request{Object: slot{decodable: o.decodable}, OldObject: slot{decodable: o.decodable}}
	}
	return json.UnmarshalDecode(d, o.request)
}

// resourceName returns the resource as kubectl writes it, such as services.v1 or nodes.v1/status.
func resourceName(r metav1.GroupVersionResource, subresource string) string {
	name := strings.TrimSuffix(r.Resource+"."+r.Version+"."+r.Group, ".")
	if subresource != "" {
		name += "/" + subresource
	}
	return name
}

// encodeReview returns the body with the response.
func encodeReview(response *admissionv1.AdmissionResponse) ([]byte, error) {
	kind := metav1.TypeMeta{Kind: reviewKind, APIVersion: reviewVersion}
	return jsonv1.Marshal(&admissionv1.AdmissionReview{TypeMeta: kind, Response: response})
}
