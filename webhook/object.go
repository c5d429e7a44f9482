package webhook

import (
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
)

// Decode reads an object of a request by the API server's own rules for JSON. The field, such as request.object, is for the
// error, which is a MalformedError: it is the caller who sent something else than what the webhook is registered for.
func Decode(field string, raw []byte, gvk schema.GroupVersionKind, into runtime.Object) error {
	if len(raw) == 0 {
		return &MalformedError{Problem: field + " is missing"}
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, into); err != nil {
		return &MalformedError{Problem: fmt.Sprintf("%s must be a %s: %v", field, gvk.Kind, err)}
	}
	if is := into.GetObjectKind().GroupVersionKind(); is != gvk {
		return &MalformedError{Problem: fmt.Sprintf("%s must be of apiVersion %s, kind %s; got apiVersion %q, kind %q",
			field, gvk.GroupVersion(), gvk.Kind, is.GroupVersion(), is.Kind)}
	}
	return nil
}

// DecodePair reads the objects of a request. The old one is nil on creation; both are nil on a deletion, which has only the old
// object, about which there is nothing to say.
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

// ObjectName is what the user knows an object by: one with generateName has no name yet.
func ObjectName(meta metav1.ObjectMeta) string {
	if meta.Name == "" {
		return meta.GenerateName
	}
	return meta.Name
}
