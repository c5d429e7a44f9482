package webhook

import (
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
)

// Decode decodes an object of a request with the same JSON rules as the API server. field, such as request.object,
// appears in the error, which is a MalformedError: the caller sent something that the webhook is not registered for.
func Decode(field string, raw []byte, gvk schema.GroupVersionKind, into runtime.Object) error {
	if len(raw) == 0 {
		return &MalformedError{Problem: field + " is missing"}
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, into); err != nil {
		return &MalformedError{Problem: fmt.Sprintf("%s must be a %s: %v", field, gvk.Kind, err)}
	}
	if got := into.GetObjectKind().GroupVersionKind(); got != gvk {
		return &MalformedError{Problem: fmt.Sprintf("%s must have apiVersion %q and kind %q; got apiVersion %q and kind %q",
			field, gvk.GroupVersion(), gvk.Kind, got.GroupVersion(), got.Kind)}
	}
	return nil
}

// DecodePair decodes the objects of a request. The old one is nil on creation. Both are nil on deletion, which has only
// the old object, and that needs no validation.
func DecodePair[T any, Object interface {
	*T
	runtime.Object
}](req *admissionv1.AdmissionRequest, gvk schema.GroupVersionKind) (oldObject, newObject Object, err error) {
	decode := func(field string, raw []byte) (Object, error) {
		object := Object(new(T))
		if err := Decode(field, raw, gvk, object); err != nil {
			return nil, err
		}
		return object, nil
	}
	switch req.Operation {
	case admissionv1.Create:
		newObject, err = decode("request.object", req.Object.Raw)
	case admissionv1.Update:
		if newObject, err = decode("request.object", req.Object.Raw); err == nil {
			oldObject, err = decode("request.oldObject", req.OldObject.Raw)
		}
	default:
	}
	return oldObject, newObject, err
}

// ObjectName returns the name by which the user knows an object: one with generateName has no name yet.
func ObjectName(meta metav1.ObjectMeta) string {
	if meta.Name == "" {
		return meta.GenerateName
	}
	return meta.Name
}
