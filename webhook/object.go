package webhook

import (
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is an object of a request.
type Object interface {
	runtime.Object
	metav1.Object
}

// Request is a request to create or update an object.
type Request struct {
	Namespace string
	// Old is nil on creation.
	Old, New Object

	handler *Handler
}

// Objects returns the objects of a request; the old one is nil on creation.
func Objects[O Object](req *Request) (oldObject, newObject O) {
	oldObject, _ = req.Old.(O)
	newObject, _ = req.New.(O)
	return oldObject, newObject
}

// request returns the request for the Admitter; nil if it needs none. An error means that the caller sent something that
// the webhook is not registered for.
func (h *Handler) request(r *request) (*Request, error) {
	if r.Operation == admissionv1.Delete {
		return nil, nil
	}
	if err := h.valid("request.object", &r.Object); err != nil {
		return nil, err
	}
	relevant := &Request{Namespace: r.Namespace, New: r.Object.object, handler: h}
	if r.Operation == admissionv1.Update {
		if err := h.valid("request.oldObject", &r.OldObject); err != nil {
			return nil, err
		}
		relevant.Old = r.OldObject.object
	}
	if relevant.New.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	return relevant, nil
}

// valid reports an object that is missing, malformed or of the wrong kind.
func (h *Handler) valid(name string, s *slot) error {
	kind, version := h.o.Admitter.Kind, h.o.Admitter.Resource.GroupVersion().String()
	switch {
	case s.mismatch != nil:
		return fmt.Errorf("%s must be a %s: %w", name, kind, s.mismatch)
	case s.object == nil:
		return fmt.Errorf("%s is missing", name)
	}
	if is, _ := s.object.GetObjectKind().(*metav1.TypeMeta); kind != "" && (is.APIVersion != version || is.Kind != kind) {
		return fmt.Errorf("%s must have apiVersion %q and kind %q; got apiVersion %q and kind %q",
			name, version, kind, is.APIVersion, is.Kind)
	}
	return nil
}
